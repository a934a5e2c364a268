import { randomBytes, randomUUID } from "node:crypto";
import type { Database } from "../../src/db/connection.ts";
import type { DecisionItem } from "../../src/proofs/decision.ts";

/** Rows of one account with a connection, an agent and a certificate, as the features would have written them. */
export type Records = {
  accountId: string;
  connectionId: string;
  agentId: string;
  humanId: string;
  certId: string;
};

const now = new Date("2026-01-01T00:00:00.000Z");
const hex = (bytes: number) => randomBytes(bytes).toString("hex");

export async function insertRecords(db: Database, balanceMicroUsd: number): Promise<Records> {
  const records: Records = {
    accountId: randomUUID(),
    connectionId: randomUUID(),
    agentId: hex(16),
    humanId: hex(16),
    certId: `cert-${randomUUID()}`,
  };
  const platformId = randomUUID();
  const { accountId, connectionId, agentId, humanId } = records;
  await db("accounts").insert({
    account_id: accountId,
    email: `${hex(8)}@example.test`,
    onboarding_step: "complete",
    account_type: "individual",
    human_id: humanId,
    root_key_id: hex(16),
    root_public_key: { ed25519: "", ml_dsa_65: "" },
    created_at: now,
  });
  await db("balances").insert({ account_id: accountId, balance_micro_usd: balanceMicroUsd });
  await db("platforms").insert({
    platform_id: platformId,
    account_id: accountId,
    name: "shop",
    description: "",
    surface_type: "agentic_api",
    default_allowed_scopes: ["data:read"],
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
    agent_id: agentId,
    account_id: accountId,
    connection_id: connectionId,
    name: "bot",
    agent_type: "api_agent",
    custody_mode: "custodial",
    public_key: { ed25519: "", ml_dsa_65: "" },
    created_at: now,
  });
  await insertCertificate(db, records, records.certId);
  return records;
}

export async function insertCertificate(db: Database, records: Records, certId: string): Promise<void> {
  const requestId = `req-${randomUUID()}`;
  const owner = {
    account_id: records.accountId,
    connection_id: records.connectionId,
    agent_id: records.agentId,
  };
  await db("delegation_requests").insert({
    ...owner,
    request_id: requestId,
    requested_scope: ["data:read"],
    constraints: JSON.stringify([]) as unknown as unknown[],
    status: "approved",
    created_at: now,
    expires_at: now,
  });
  await db("certificates").insert({
    ...owner,
    cert_id: certId,
    request_id: requestId,
    approved_scope: ["data:read"],
    cert_json: "{}",
    status: "approved",
    issued_at: now,
    approved_by: records.accountId,
    approval_channel: "session",
  });
}

/** An item that the pure rules allowed, with a challenge of its own unless one is given. */
export function itemFor(records: Records, changes: Partial<DecisionItem> = {}): DecisionItem {
  return {
    accountId: records.accountId,
    connectionId: records.connectionId,
    challenge: randomBytes(32),
    challengeExpiresAt: new Date("2026-01-01T00:05:00.000Z"),
    decision: "allow",
    reason: "authorized",
    certificates: [{ accountId: records.accountId, certId: records.certId }],
    eventId: randomUUID(),
    decidedAt: now,
    agentId: records.agentId,
    humanId: records.humanId,
    certId: records.certId,
    requiredScope: "data:read",
    receiptHead: '{"agent_id":"a",',
    grantedScope: ["data:read", "payments:send"],
    receiptTail: ',"human_id":"h"}',
    ...changes,
  };
}
