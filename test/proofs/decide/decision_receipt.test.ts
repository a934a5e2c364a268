import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import type { DecisionOutcome } from "../../../src/proofs/decide/decision.ts";
import { type Receipt, receiptParts } from "../../../src/proofs/decide/decision_receipt.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords, itemFor } from "../records.ts";

const VECTOR = resolve(import.meta.dirname, "../../vectors/receipt.json");
const world = decisionWorld();

test("a receipt follows RFC 8785, except that U+2028 and U+2029 are escaped", async () => {
  const vector: { receipt: Required<Receipt> } & Record<"canonical" | "receipt_hash" | "rfc_8785", string> =
    JSON.parse(await readFile(VECTOR, "utf8"));
  const { receipt } = vector;
  const { head, tail } = receiptParts({
    receiptId: receipt.receipt_id,
    connectionId: receipt.connection_id,
    verifierId: receipt.verifier_id,
    agentId: receipt.agent_id,
    humanId: receipt.human_id,
    certId: receipt.cert_id,
    requiredScope: receipt.required_scope,
    operation: { invocation_id: receipt.invocation_id, request_hash: receipt.request_hash },
    bundleHash: receipt.bundle_hash,
    verifiedAt: new Date(receipt.verified_at),
  });
  const item = itemFor(await insertRecords(world.db, 1e9), {
    receiptHead: head,
    receiptTail: tail,
    decision: receipt.decision as "allow" | "deny",
    reason: receipt.decision_reason,
    grantedScope: receipt.granted_scope,
  });
  const written = (await world.decideOne(item)) as Extract<DecisionOutcome, { kind: "decided" }>;
  expect(written.receipt).toBe(vector.canonical);
  expect(`sha256:${written.receiptHash.toString("hex")}`).toBe(vector.receipt_hash);
  expect(`sha256:${hash("sha256", written.receipt)}`).toBe(vector.receipt_hash);
  expect(JSON.parse(written.receipt)).toEqual(receipt);
  expect(written.receipt).not.toBe(vector.rfc_8785);
  const escaped = vector.rfc_8785.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
  expect(written.receipt).toBe(escaped);
});
