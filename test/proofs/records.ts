import { randomBytes, randomUUID } from "node:crypto";
import type { Database } from "../../src/db/database.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { insertAccount, insertApproval } from "../support/account_rows.ts";

/** Ids of one account's rows, as the service would write them. */
export type Records = {
  accountId: string;
  connectionId: string;
  agentId: string;
  humanId: string;
  certId: string;
};

const now = new Date("2026-01-01T00:00:00.000Z");
const noKey = { ed25519: "", ml_dsa_65: "" };

/** Inserts the rows of an account. Omitted ids are random. */
export async function insertRecords(
  db: Database,
  balanceMicroUsd: number,
  ids: Partial<Records> = {},
): Promise<Records> {
  const records: Records = {
    accountId: randomUUID(),
    connectionId: randomUUID(),
    agentId: randomBytes(16).toString("hex"),
    humanId: randomBytes(16).toString("hex"),
    certId: `cert-${randomUUID()}`,
    ...ids,
  };
  const keys = { rootPublicKey: noKey, agentPublicKey: noKey };
  await insertAccount(db, { ...records, ...keys, balanceMicroUsd, scope: ["data:read"], now });
  await insertCertificate(db, records, records.certId);
  return records;
}

export async function insertCertificate(db: Database, records: Records, certId: string): Promise<void> {
  await insertApproval(db, records, { certId, json: "{}", scope: ["data:read"], now });
}

/** Creates an item that the pure rules allowed. Its challenge is random unless `changes` contains one. */
export function itemFor(records: Records, changes: Partial<DecisionItem> = {}): DecisionItem {
  return {
    accountId: records.accountId,
    connectionId: records.connectionId,
    customerAccountId: null,
    challenge: randomBytes(32),
    challengeExpiresAt: new Date("2026-01-01T00:05:00.000Z"),
    decision: "allow",
    reason: "authorized",
    certificates: [{ accountId: records.accountId, certId: records.certId }],
    eventId: randomUUID(),
    decidedAt: now,
    agentId: records.agentId,
    humanId: records.humanId,
    rootAccountId: records.accountId,
    certId: records.certId,
    requiredScope: "data:read",
    action: null,
    receiptHead: '{"agent_id":"a",',
    grantedScope: ["data:read", "payments:send"],
    receiptTail: ',"human_id":"h"}',
    errorReason: null,
    explanation: null,
    invocation: null,
    traceparent: null,
    ...changes,
  };
}
