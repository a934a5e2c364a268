import { randomBytes, randomUUID } from "node:crypto";
import type { Database } from "../../src/db/database.ts";
import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";

export type Owned = { accountId: string; connectionId: string; agentId: string };

export type AccountRows = Owned & {
  humanId: string;
  rootPublicKey: HybridPublicKey;
  agentPublicKey: HybridPublicKey;
  balanceMicroUsd: number;
  /** The ceiling of the platform. */
  scope: string[];
  now: Date;
};

/** Sets an account's whole credit, in micro-USD. */
export async function setCredit(db: Database, accountId: string, microUsd: number): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.raw("select join_slices(?)", [accountId]);
    await tx("balances").where({ account_id: accountId }).update({ balance_micro_usd: microUsd });
  });
}

/** An approved certificate. `json` is the certificate in the wire format. */
export type CertificateRows = { certId: string; json: string; scope: string[]; now: Date };

/** Inserts an account with the rows that the service would write. */
export async function insertAccount(db: Database, rows: AccountRows): Promise<void> {
  const { accountId, connectionId, humanId, now } = rows;
  const platformId = randomUUID();
  await db("accounts").insert({
    account_id: accountId,
    email: `${randomBytes(8).toString("hex")}@example.test`,
    onboarding_step: "complete",
    account_type: "individual",
    human_id: humanId,
    root_key_id: `root-${humanId}`,
    root_public_key: rows.rootPublicKey,
    created_at: now,
  });
  await db("balances").insert({ account_id: accountId, balance_micro_usd: rows.balanceMicroUsd });
  await db("platforms").insert({
    platform_id: platformId,
    account_id: accountId,
    name: "shop",
    description: "",
    surface_type: "agentic_api",
    default_allowed_scopes: rows.scope,
    signing_secret_sealed: Buffer.of(1),
    created_at: now,
    expires_at: now,
  });
  await db("connections").insert({
    connection_id: connectionId,
    account_id: accountId,
    platform_id: platformId,
    verifier_id: connectionId,
    webhook_secret_sealed: Buffer.of(1),
    created_at: now,
  });
  await db("agents").insert({
    agent_id: rows.agentId,
    account_id: accountId,
    connection_id: connectionId,
    name: "shop-bot",
    agent_type: "api_agent",
    custody_mode: "custodial",
    public_key: rows.agentPublicKey,
    created_at: now,
  });
}

export async function insertApproval(
  db: Database,
  { accountId, connectionId, agentId }: Owned,
  { certId, json, scope, now }: CertificateRows,
): Promise<void> {
  const owner = { account_id: accountId, connection_id: connectionId, agent_id: agentId };
  const requestId = `req-${randomUUID()}`;
  await db("delegation_requests").insert({
    ...owner,
    request_id: requestId,
    requested_scope: scope,
    constraints: JSON.stringify([]) as unknown as unknown[],
    status: "approved",
    created_at: now,
    expires_at: now,
  });
  await db("certificates").insert({
    ...owner,
    cert_id: certId,
    request_id: requestId,
    approved_scope: scope,
    cert_json: json,
    status: "approved",
    issued_at: now,
    approved_by: accountId,
    approval_channel: "session",
  });
}

/** Inserts a notice about low credit that is due at `at`, and returns its event's id. */
export async function insertNotice(
  db: Database,
  { accountId, at, createdAt = at }: { accountId: string; at: Date; createdAt?: Date },
): Promise<string> {
  const event_id = randomUUID();
  const event = { event: "credits.low", account_id: accountId, level: "low", occurred_at: at.toISOString() };
  const amounts = { balance_micro_usd: 1_998_000, low_at_micro_usd: 2_000_000, price_micro_usd: 500 };
  await db("notices").insert({
    ...{ event_id, account_id: accountId, type: "credits.low", state: "waiting" },
    ...{ payload: JSON.stringify({ ...event, ...amounts }), created_at: createdAt, next_attempt_at: at },
  });
  return event_id;
}
