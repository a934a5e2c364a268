import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { bytes32, encode, NOW, prove } from "../support/chains.ts";
import { roundBudget } from "../support/round_budget.ts";
import { flipBit, refusal } from "../support/tampering.ts";

/**
 * Bits are tried this far from each other, so that fewer than all are from every part. A prime: it comes to
 * every bit.
 */
const STRIDE = 7919;

test("a proof is refused after the change of any of its bits, all tried unless PROOF_SECONDS are over", {
  timeout: 1_800_000,
}, async () => {
  const bundle = await prove([{}, {}], { session_context: bytes32(1), stream_id: bytes32(2), stream_seq: 1 });
  const options = {
    now: NOW,
    session_context: bytes32(1),
    stream: { stream_id: bytes32(2), last_seen_seq: 0 },
  };
  const document = encode(bundle);
  expect(await refusal(document, options)).toBeUndefined();
  const bits = document.length * 8;
  expect(bits % STRIDE).not.toBe(0);
  const first = randomInt(bits);
  const isWanted = roundBudget("PROOF_SECONDS", { fewest: 10_000, most: bits });
  const accepted: number[] = [];
  let tried = 0;
  for (; isWanted(tried); tried += 1) {
    const bit = (first + tried * STRIDE) % bits;
    if ((await refusal(flipBit(document, bit), options)) === undefined) accepted.push(bit);
  }
  console.info(`${tried} of ${bits} bits were tried, the first was ${first}`);
  expect(accepted).toEqual([]);
});
