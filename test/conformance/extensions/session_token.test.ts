import { beforeAll, describe, expect, test } from "vitest";
import type { DelegationCert } from "../../../src/protocol/documents/certificate.ts";
import { AGENT, bytes32, chain, encode, NOW, ROOT } from "../../support/chains.ts";
import {
  decodeSessionToken,
  issueSessionToken,
  type SessionGrant,
  type SessionToken,
} from "./session_token.ts";

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

describe("a session token", () => {
  test("stays the same after encoding and decoding, and contains sorted scopes and the root issuer's id as human id", () => {
    const sealed = token();
    expect(decodeSessionToken(encode(sealed))).toEqual(sealed);
    expect(sealed.granted_scope).toEqual(["meeting:attend", "meeting:speak"]);
    expect(sealed.human_id).toBe(ROOT.id);
  });

  test("contains its scopes sorted by code point, not by UTF-16 units", () => {
    const { granted_scope } = token({ granted_scope: ["custom:\u{1f600}", "custom:\uffee"] });
    expect(granted_scope).toEqual(["custom:\uffee", "custom:\u{1f600}"]);
  });

  test.each([
    ["extra", 1, "unknown_field"],
    ["mac", null, "missing_field"],
    ["mac", "AA==", "wrong_length"],
    ["chain_hash", "AA==", "wrong_length"],
    ["issued_at", 0.5, "invalid_integer"],
    ["valid_until", 2 ** 53, "invalid_integer"],
    ["granted_scope", null, "missing_field"],
    ["agent_pub_key", { ed25519: bytes32(1) }, "missing_field"],
  ])("fails decoding if its %s is %j: %s", (name, value, code) => {
    expect(() => decodeSessionToken(encode({ ...token(), [name]: value }))).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test("cannot be issued without a chain, with a short secret, or with an expiry after that of a certificate", () => {
    const refuses = (code: string) => expect.objectContaining({ code });
    expect(() => token({ chain: [] })).toThrow(refuses("empty_chain"));
    expect(() => token({}, Buffer.alloc(31))).toThrow(refuses("wrong_length"));
    expect(() => token({ valid_until: NOW - 1 })).toThrow(refuses("invalid_validity"));
    expect(token({ valid_until: NOW + 1800 }).valid_until).toBe(NOW + 1800);
    expect(() => token({ valid_until: NOW + 1801 })).toThrow(refuses("invalid_validity"));
  });

  test("has a different MAC if any field, the chain or the secret differs", () => {
    const changes: Partial<SessionGrant>[] = [
      {},
      { session_id: "x" },
      { agent_id: "x" },
      { agent_pub_key: ROOT.publicKey },
      { granted_scope: [] },
      { issued_at: NOW - 1 },
      { valid_until: NOW + 1 },
      { chain: certificates.slice(0, 1) },
      { chain: certificates.slice(1) },
    ];
    const macs = [...changes.map((change) => token(change).mac), token({}, Buffer.alloc(32, 4)).mac];
    expect(new Set(macs).size).toBe(changes.length + 1);
  });
});
