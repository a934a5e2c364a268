import { describe, expect, test } from "vitest";
import { challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { bytes32 } from "../../support/chains.ts";

const hex = (binding: Parameters<typeof challengeSignBytes>[0]) =>
  Buffer.from(challengeSignBytes(binding)).toString("hex");
const challenge = bytes32(0xaa);
const [A, B, C] = ["aa", "bb", "cc"].map((byte) => byte.repeat(32));

describe("the signed bytes of a challenge", () => {
  test.each([
    [40, {}, `${A}000000006b49d200`],
    [72, { session_context: bytes32(0xbb) }, `${A}000000006b49d200${B}`],
    [80, { stream_id: bytes32(0xcc), stream_seq: 258 }, `${A}000000006b49d200${C}0000000000000102`],
    [
      112,
      { session_context: bytes32(0xbb), stream_id: bytes32(0xcc), stream_seq: 1 },
      `${A}000000006b49d200${B}${C}0000000000000001`,
    ],
  ])("have %d bytes", (length, bound, expected) => {
    expect(hex({ challenge, challenge_at: 1_800_000_000, ...bound })).toBe(expected);
    expect(expected).toHaveLength(length * 2);
  });

  test("support times up to 2^53−1", () => {
    expect(hex({ challenge, challenge_at: 2 ** 53 - 1 })).toBe(`${A}001fffffffffffff`);
    expect(hex({ challenge, challenge_at: 0 })).toBe(`${A}0000000000000000`);
  });

  test.each([
    ["a challenge of 31 bytes", { challenge: Buffer.alloc(31).toString("base64") }, "wrong_length"],
    ["a challenge that is not base64", { challenge: "?" }, "invalid_base64"],
    ["a time before 1970", { challenge_at: -1 }, "invalid_integer"],
    ["a time after 2^53−1", { challenge_at: 2 ** 53 }, "invalid_integer"],
    ["a fraction of a second", { challenge_at: 0.5 }, "invalid_integer"],
    [
      "a session context of 33 bytes",
      { session_context: Buffer.alloc(33).toString("base64") },
      "wrong_length",
    ],
    ["a stream id alone", { stream_id: bytes32(1) }, "missing_field"],
    ["a stream number alone", { stream_seq: 1 }, "missing_field"],
    [
      "a stream number that is not an integer",
      { stream_id: bytes32(1), stream_seq: Number.NaN },
      "invalid_integer",
    ],
  ])("cannot be computed for %s", (_, change, code) => {
    expect(() => challengeSignBytes({ challenge, challenge_at: 1, ...change })).toThrow(
      expect.objectContaining({ code }),
    );
  });
});
