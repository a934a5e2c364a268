import { describe, expect, test } from "vitest";
import { code } from "../support/answers.ts";
import { bytes32, NOW, prove, tamper } from "../support/chains.ts";

describe("the session context", () => {
  test.each([
    ["absent on both sides", undefined, undefined, "valid"],
    ["equal", bytes32(1), bytes32(1), "valid"],
    ["different", bytes32(1), bytes32(2), "session_context_mismatch"],
    ["missing in the bundle", undefined, bytes32(1), "missing_session_context"],
    ["unknown to the verifier", bytes32(1), undefined, "session_context_unverifiable"],
    ["with the wrong length at the verifier", bytes32(1), bytes32(1).slice(0, 24), "invalid_session_context"],
  ])("determines the result if it is %s", async (_, presented, own, expected) => {
    const bundle = await prove([{}], presented === undefined ? {} : { session_context: presented });
    expect(await code(bundle, { session_context: own })).toBe(expected);
  });

  test("causes invalid_session_context if it has the wrong length in the bundle", async () => {
    const bundle = { ...(await prove()), session_context: "AAAA" };
    expect(await code(bundle, { session_context: bytes32(1) })).toBe("invalid_session_context");
  });

  test("invalidates the challenge signature if it is added, removed or changed after signing", async () => {
    const bound = await prove([{}], { session_context: bytes32(1) });
    const { session_context: _, ...unbound } = bound;
    expect(await code(unbound)).toBe("bad_challenge_sig");
    expect(await code({ ...bound, session_context: bytes32(2) }, { session_context: bytes32(2) })).toBe(
      "bad_challenge_sig",
    );
    expect(
      await code({ ...(await prove()), session_context: bytes32(1) }, { session_context: bytes32(1) }),
    ).toBe("bad_challenge_sig");
  });
});

describe("the stream", () => {
  const stream = (last_seen_seq: number, byte = 5) => ({
    stream: { stream_id: bytes32(byte), last_seen_seq },
  });
  const turn = (stream_seq: number) => prove([{}], { stream_id: bytes32(5), stream_seq });

  test.each([
    [1, 0, "valid"],
    [4, 3, "valid"],
    [3, 3, "stream_seq_replay"],
    [1, 3, "stream_seq_replay"],
    [5, 3, "stream_seq_skip"],
    [0, 0, "invalid_stream_seq"],
    [-1, -2, "invalid_stream_seq"],
    [2 ** 53 - 1, 2 ** 53 - 2, "valid"],
    [2 ** 53 - 1, 2 ** 53 - 1, "stream_seq_replay"],
  ])("with sequence number %d after %d gives: %s", async (seq, last, expected) => {
    expect(await code(await turn(seq), stream(last))).toBe(expected);
  });

  test("must be the verifier's stream, and must be either present or absent both in the proof and at the verifier", async () => {
    expect(await code(await turn(1), stream(0, 6))).toBe("stream_id_mismatch");
    expect(await code(await turn(1))).toBe("stream_context_unverifiable");
    expect(await code(await prove(), stream(0))).toBe("missing_stream_context");
    expect(await code({ ...(await turn(1)), stream_id: "AAAA" }, stream(0))).toBe("invalid_stream_id");
  });

  test("invalidates the challenge signature if its sequence number is changed after signing", async () => {
    expect(await code({ ...(await turn(1)), stream_seq: 2 }, stream(1))).toBe("bad_challenge_sig");
  });
});

describe("the challenge", () => {
  test.each([
    [0, "valid"],
    [300, "valid"],
    [301, "stale_challenge"],
    [-1, "stale_challenge"],
  ])("with an age of %d seconds gives: %s", async (age, expected) => {
    expect(await code(await prove(), { now: NOW + age })).toBe(expected);
  });

  test.each(["ed25519", "ml_dsa_65"] as const)("needs a valid %s signature", async (half) => {
    const bundle = await prove();
    const challenge_sig = { ...bundle.challenge_sig, [half]: tamper(bundle.challenge_sig[half]) };
    expect(await code({ ...bundle, challenge_sig })).toBe("bad_challenge_sig");
  });

  test("invalidates the agent's signature if its value or its time is changed after signing", async () => {
    const bundle = await prove();
    expect(await code({ ...bundle, challenge: bytes32(8) })).toBe("bad_challenge_sig");
    expect(await code({ ...bundle, challenge_at: NOW - 1 })).toBe("bad_challenge_sig");
  });
});
