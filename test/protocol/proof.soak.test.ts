import { expect, test } from "vitest";
import { bytes32, encode, NOW, prove } from "../support/chains.ts";
import { flipBit, refusal } from "../support/tampering.ts";

test("a proof fails verification after a change of any of its bits", {
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
  const accepted: number[] = [];
  for (let bit = 0; bit < bits; bit += 1) {
    if ((await refusal(flipBit(document, bit), options)) === undefined) accepted.push(bit);
  }
  expect(accepted).toEqual([]);
});
