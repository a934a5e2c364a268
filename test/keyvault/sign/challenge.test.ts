import { afterAll, beforeAll, expect, test } from "vitest";
import type { Caller } from "../../../keyvault/audit/record.ts";
import { isRefusal } from "../../../keyvault/errors.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createRates } from "../../../keyvault/rates.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { type ChallengeBinding, challengeSignBytes } from "../../../src/protocol/documents/challenge.ts";
import { verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let agent: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  agent = await vault.makeAgent("acc-1");
});
afterAll(() => vault.close());

const bytes = (fill: number, length = 32) => Buffer.alloc(length, fill).toString("base64");
const answer = (binding: Partial<ChallengeBinding> = {}, keyId = agent.key_id, tenant = "acc-1") =>
  createChallengeSigning(vault.parts())(API, keyId, {
    tenant,
    binding: { challenge: bytes(1), challenge_at: vault.now(), ...binding },
  });

test.each<[string, Partial<ChallengeBinding>]>([
  ["without session and stream", {}],
  ["with a session, without a stream", { session_context: bytes(2) }],
  ["with a stream, without a session", { stream_id: bytes(3), stream_seq: 1 }],
  ["with session and stream", { session_context: bytes(2), stream_id: bytes(3), stream_seq: 7 }],
])("a challenge %s gets a response with a valid signature of each half", async (_, binding) => {
  const signed = await answer(binding);
  if (isRefusal(signed)) throw new Error(signed.message);
  expect(signed.agent_id).toBe(agent.key_id);
  expect(signed.agent_pub_key).toEqual(agent.public_key);
  const expected = challengeSignBytes({ challenge: bytes(1), challenge_at: vault.now(), ...binding });
  expect(await verifyHybrid(agent.public_key, expected, signed.challenge_sig)).toBe(true);
});

test.each([
  [-60, "a signature"],
  [60, "a signature"],
  [-61, "policy_violation"],
  [61, "policy_violation"],
])("a challenge with a time %i s from now gets %s", async (offset, expected) => {
  const signed = await answer({ challenge_at: vault.now() + offset });
  expect(isRefusal(signed) ? signed.refused : "a signature").toBe(expected);
});

test.each<[string, Partial<ChallengeBinding>]>([
  ["31 bytes", { challenge: bytes(1, 31) }],
  ["33 bytes", { challenge: bytes(1, 33) }],
  ["invalid base64", { challenge: "not base64!" }],
  ["a session of 64 bytes", { session_context: bytes(1, 64) }],
  ["a stream of 16 bytes", { stream_id: bytes(1, 16), stream_seq: 1 }],
  ["a stream without its number", { stream_id: bytes(1) }],
])(
  "a challenge with %s is refused, because its signed bytes would not be those of a challenge",
  async (_, binding) => {
    expect(await answer(binding)).toMatchObject({ refused: "invalid_request" });
  },
);

test("a challenge for another tenant's key, a root key or an unknown key is refused and recorded", async () => {
  const root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  const seq = vault.head();
  expect(await answer({}, agent.key_id, "acc-2")).toMatchObject({ refused: "key_not_found" });
  expect(await answer({}, root.key_id)).toMatchObject({ refused: "purpose_mismatch" });
  expect(await answer({}, "f".repeat(32))).toMatchObject({ refused: "key_not_found" });
  await answer();
  const told = ["key_not_found", "purpose_mismatch", "key_not_found", "granted"];
  expect(await vault.recordsAfter(seq)).toEqual(told.map((outcome) => ({ statement: "challenge", outcome })));
});

test("a caller that names missing keys uses up only its own rate limit", async () => {
  const frozen = { rates: createRates(() => 0), signingRates: { perKey: 1, perTenant: 1 } };
  const sign = createChallengeSigning({ ...vault.parts(), ...frozen });
  const { tenant, ...binding } = vault.challenge();
  const ask = async (caller: Caller) => {
    const signed = await sign(caller, "0".repeat(32), { tenant, binding });
    return isRefusal(signed) ? signed.refused : undefined;
  };
  const outcomes = [await ask(API), await ask(API), await ask(API)];
  expect(outcomes).toEqual(["key_not_found", "key_not_found", "rate_limited"]);
  expect(await ask({ ...API, name: "another" })).toBe("key_not_found");
});
