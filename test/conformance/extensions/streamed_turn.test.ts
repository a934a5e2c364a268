import { beforeAll, describe, expect, test } from "vitest";
import type { DelegationCert } from "../../../src/protocol/documents/certificate.ts";
import { type ChallengeBinding, challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { encodeBase64 } from "../../../src/protocol/encoding/base64.ts";
import { signHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { AGENT, binding, bytes32, chain, encode, NOW, ROOT, tamper } from "../../support/chains.ts";
import { memoryStore } from "../../support/challenge_store.ts";
import { issueSessionToken, type SessionGrant, type SessionToken, sessionTokenMac } from "./session_token.ts";
import {
  decodeStreamedTurn,
  type StreamedTurn,
  type TurnOptions,
  verifyStreamedTurn,
} from "./streamed_turn.ts";

const SECRET = Buffer.alloc(32, 3);
let certificates: DelegationCert[];

beforeAll(async () => {
  certificates = await chain({}, {});
});

function token(changes: Partial<SessionGrant> = {}, secret: Uint8Array = SECRET): SessionToken {
  const grant: SessionGrant = {
    session_id: "session-1",
    agent_id: AGENT.id,
    agent_pub_key: AGENT.publicKey,
    chain: certificates,
    granted_scope: ["meeting:speak", "meeting:attend"],
    issued_at: NOW,
    valid_until: NOW + 600,
  };
  return issueSessionToken({ ...grant, ...changes }, secret);
}

async function turn(changes: Partial<ChallengeBinding> = {}): Promise<StreamedTurn> {
  const bound = binding(changes);
  return { ...bound, challenge_sig: await signHybrid(AGENT.privateKey, challengeSignBytes(bound)) };
}

async function answer(sealed: SessionToken, given: StreamedTurn, options: Partial<TurnOptions> = {}) {
  return verifyStreamedTurn(sealed, given, { secret: SECRET, now: NOW, ...options });
}

describe("decoding a streamed turn", () => {
  let given: StreamedTurn;

  beforeAll(async () => {
    given = await turn({ session_context: bytes32(1), stream_id: bytes32(2), stream_seq: 1 });
  });

  test("returns the turn that was encoded, with and without optional members", async () => {
    expect(decodeStreamedTurn(encode(given))).toEqual(given);
    const plain = await turn();
    expect(decodeStreamedTurn(encode(plain))).toEqual(plain);
  });

  test.each([
    ["challenge", undefined, "missing_field"],
    ["challenge", null, "missing_field"],
    ["challenge", Buffer.alloc(31).toString("base64"), "wrong_length"],
    ["challenge", Buffer.alloc(33).toString("base64"), "wrong_length"],
    ["challenge_at", undefined, "missing_field"],
    ["challenge_at", -1, "invalid_integer"],
    ["challenge_at", 0.5, "invalid_integer"],
    ["challenge_sig", undefined, "missing_field"],
    ["challenge_sig", { ed25519: bytes32(1) }, "wrong_length"],
    ["session_context", null, "wrong_type"],
    ["session_context", "AA==", "wrong_length"],
    ["stream_id", undefined, "missing_field"],
    ["stream_seq", undefined, "missing_field"],
    ["stream_seq", "1", "wrong_type"],
    ["agent_id", AGENT.id, "unknown_field"],
    ["delegations", [], "unknown_field"],
  ])("rejects a %s of %j: %s", (name, value, code) => {
    expect(() => decodeStreamedTurn(encode({ ...given, [name]: value }))).toThrow(
      expect.objectContaining({ code }),
    );
  });
});

describe("a streamed turn", () => {
  test("grants the authority of its token", async () => {
    expect(await answer(token(), await turn(), { required_scope: "meeting:speak" })).toMatchObject({
      valid: true,
      genuine: true,
      human_id: ROOT.id,
      agent_id: AGENT.id,
      granted_scope: ["meeting:attend", "meeting:speak"],
      identity_status: "authorized_agent",
    });
  });

  test.each([
    ["in the token's first second", NOW, undefined],
    ["a second too early", NOW - 1, "session_token_invalid: session_token not yet valid"],
    ["in the token's last second", NOW + 600, undefined],
    ["a second too late", NOW + 601, "session_token_invalid: session_token expired"],
  ])("requires a token that is valid at the time of the turn: %s", async (_, now, expected) => {
    expect((await answer(token(), await turn({ challenge_at: now }), { now })).error_reason).toBe(expected);
  });

  test("fails for its stream and not for its age if both are invalid, as in §8", async () => {
    const late = await turn({ challenge_at: NOW - 301, stream_id: bytes32(2), stream_seq: 1 });
    const stream = { stream_id: bytes32(2), last_seen_seq: 1 };
    expect((await answer(token(), late, { stream })).violation?.code).toBe("stream_seq_replay");
    expect((await answer(token(), late, { stream: { ...stream, last_seen_seq: 0 } })).violation?.code).toBe(
      "stale_challenge",
    );
  });

  test("requires the verifier's MAC over every field", async () => {
    const given = await turn();
    const reason = async (sealed: SessionToken) => (await answer(sealed, given)).error_reason;
    const invalid = "session_token_invalid: session_token MAC invalid";
    expect(await reason(token({}, Buffer.alloc(32, 4)))).toBe(invalid);
    expect(await reason({ ...token(), mac: tamper(token().mac) })).toBe(invalid);
    expect(await reason({ ...token(), mac: "" })).toBe(invalid);
    expect(await reason({ ...token(), valid_until: NOW + 601 })).toBe(invalid);
    expect(await reason({ ...token(), granted_scope: ["meeting:record"] })).toBe(invalid);
    expect(await reason({ ...token(), human_id: "\ud800" })).toBe(invalid);
  });

  test("requires version 1, even with a good MAC", async () => {
    const { mac: _, ...fields } = { ...token(), version: 2 };
    const sealed = { ...fields, mac: encodeBase64(sessionTokenMac(fields, SECRET)) };
    expect((await answer(sealed, await turn())).error_reason).toBe(
      "session_token_invalid: session_token version unknown",
    );
  });

  test("does not cause a signature check if its token is not valid", async () => {
    const { checks } = await answer(token({}, Buffer.alloc(32, 4)), await turn());
    expect(checks().map(({ outcome }) => outcome)).toEqual(["failed", ...Array(7).fill("not_reached")]);
  });

  test.each([
    ["signed 300 seconds ago", { challenge_at: NOW - 300 }, {}, undefined],
    ["signed 301 seconds ago", { challenge_at: NOW - 301 }, {}, "stale_challenge"],
    ["from the future", { challenge_at: NOW + 1 }, {}, "stale_challenge"],
    [
      "bound to a session the verifier knows",
      { session_context: bytes32(1) },
      { session_context: bytes32(1) },
      undefined,
    ],
    [
      "bound to a different session",
      { session_context: bytes32(1) },
      { session_context: bytes32(2) },
      "session_context_mismatch",
    ],
    [
      "the next of its stream",
      { stream_id: bytes32(1), stream_seq: 4 },
      { stream: { stream_id: bytes32(1), last_seen_seq: 3 } },
      undefined,
    ],
    [
      "the last of its stream again",
      { stream_id: bytes32(1), stream_seq: 3 },
      { stream: { stream_id: bytes32(1), last_seen_seq: 3 } },
      "stream_seq_replay",
    ],
    ["for a scope that was not granted", {}, { required_scope: "meeting:record" }, "scope_denied"],
  ] as [string, Partial<ChallengeBinding>, Partial<TurnOptions>, string | undefined][])(
    "gets the right result if it is %s",
    async (_, change, options, expected) => {
      expect((await answer(token(), await turn(change), options)).violation?.code).toBe(expected);
    },
  );

  test.each(["ed25519", "ml_dsa_65"] as const)("requires the agent's %s signature", async (half) => {
    const given = await turn();
    const challenge_sig = { ...given.challenge_sig, [half]: tamper(given.challenge_sig[half]) };
    expect((await answer(token(), { ...given, challenge_sig })).violation?.code).toBe("bad_challenge_sig");
  });

  test("consumes its challenge once, even if the turn is denied, but never if the turn is forged", async () => {
    const store = memoryStore(bytes32(7), bytes32(8), bytes32(9));
    const options = { challengeStore: store };
    expect((await answer(token(), await turn(), options)).valid).toBe(true);
    expect((await answer(token(), await turn(), options)).violation?.code).toBe("unknown_challenge");
    const denied = await answer(token(), await turn({ challenge: bytes32(8) }), {
      ...options,
      required_scope: "files:read",
    });
    expect(denied).toMatchObject({ genuine: true, violation: { code: "scope_denied" } });
    const forged = { ...(await turn({ challenge: bytes32(9) })), challenge_at: NOW - 1 };
    expect((await answer(token(), forged, options)).violation?.code).toBe("bad_challenge_sig");
    expect(await store.isKnown(bytes32(8))).toBe(false);
    expect(await store.isKnown(bytes32(9))).toBe(true);
  });
});
