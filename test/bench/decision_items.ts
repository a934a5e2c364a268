import { randomUUID } from "node:crypto";
import { addSeconds } from "../../src/clock.ts";
import type { DecisionItem } from "../../src/proofs/decide/decision_item.ts";
import { receiptParts } from "../../src/proofs/decide/decision_receipt.ts";
import { itemFor, type Records } from "../proofs/records.ts";

/** Creates an item that can be decided now, with a receipt of the usual size. */
export function shown(prover: Records, { accountId, connectionId }: Records): DecisionItem {
  const decidedAt = new Date();
  const { head, tail } = receiptParts({
    ...prover,
    receiptId: randomUUID(),
    connectionId,
    verifierId: connectionId,
    requiredScope: "data:read",
    bundleHash: "0".repeat(64),
    verifiedAt: decidedAt,
  });
  return itemFor(prover, {
    accountId,
    connectionId,
    decidedAt,
    challengeExpiresAt: addSeconds(decidedAt, 300),
    receiptHead: head,
    receiptTail: tail,
  });
}
