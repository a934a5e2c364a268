import type { Check } from "../../protocol/verification/evidence.ts";
import type { Decision } from "./decision.ts";
import type { Receipt } from "./receipt.ts";

/** A decision that is recorded, charged and final. */
export type Decided = {
  decision: Decision;
  reason: string;
  /** Why not, in the protocol's words when its rules decided; null when allowed. */
  errorReason: string | null;
  receipt: Receipt;
  receiptHash: Buffer;
  /** Whether this is the decision of an earlier call. */
  replayed: boolean;
  /** Every rule of the protocol; not kept for a decision that is given again. */
  checks?: readonly Check[];
};
