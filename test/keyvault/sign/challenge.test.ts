import { afterAll, beforeAll, expect, test } from "vitest";
import type { Caller } from "../../../keyvault/audit/record.ts";
import { unixSeconds } from "../../../keyvault/clock.ts";
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
  agent = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "agent" });
});
afterAll(() => vault.close());

const bytes = (fill: number, length = 32) => Buffer.alloc(length, fill).toString("base64");
const now = () => unixSeconds(vault.clock.now());
const answer = (binding: Partial<ChallengeBinding> = {}, keyId = agent.key_id, tenant = "acc-1") =>
  createChallengeSigning({ ...vault.vault, clock: vault.clock })(API, keyId, {
    tenant,
    binding: { challenge: bytes(1), challenge_at: now(), ...binding },
  });

test.each<[string, Partial<ChallengeBinding>]>([
  ["alone", {}],
  ["with a session", { session_context: bytes(2) }],
  ["with a stream", { stream_id: bytes(3), stream_seq: 1 }],
  ["with both", { session_context: bytes(2), stream_id: bytes(3), stream_seq: 7 }],
])("answers a challenge %s so that both halves verify", async (_, binding) => {
  const signed = await answer(binding);
  if (isRefusal(signed)) throw new Error(signed.message);
  expect(signed.agent_id).toBe(agent.key_id);
  expect(signed.agent_pub_key).toEqual(agent.public_key);
  const expected = challengeSignBytes({ challenge: bytes(1), challenge_at: now(), ...binding });
  expect(await verifyHybrid(agent.public_key, expected, signed.challenge_sig)).toBe(true);
});

test("accepts challenge_at 60 s to either side of its clock, and refuses 61 s", async () => {
  for (const offset of [-60, 60]) {
    expect(await answer({ challenge_at: now() + offset })).toHaveProperty("challenge_sig");
  }
  for (const offset of [-61, 61]) {
    expect(await answer({ challenge_at: now() + offset })).toMatchObject({ refused: "policy_violation" });
  }
});

test("refuses lengths that would make other bytes than a challenge's", async () => {
  const refused = { refused: "invalid_request" };
  expect(await answer({ challenge: bytes(1, 31) })).toMatchObject(refused);
  expect(await answer({ challenge: bytes(1, 33) })).toMatchObject(refused);
  expect(await answer({ challenge: "not base64!" })).toMatchObject(refused);
  expect(await answer({ session_context: bytes(1, 64) })).toMatchObject(refused);
  expect(await answer({ stream_id: bytes(1, 16), stream_seq: 1 })).toMatchObject(refused);
  expect(await answer({ stream_id: bytes(1) })).toMatchObject(refused);
});

test("refuses another tenant's key and a root key", async () => {
  const root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  expect(await answer({}, agent.key_id, "acc-2")).toMatchObject({ refused: "key_not_found" });
  expect(await answer({}, root.key_id)).toMatchObject({ refused: "purpose_mismatch" });
});

test("every attempt, granted or refused, is in the chain", async () => {
  const before = vault.vault.journal.head().seq;
  await answer();
  await answer({ challenge_at: 0 });
  await answer({}, "f".repeat(32));
  const records = await vault.home.sql("select statement, outcome from audit where seq > $1 order by seq", [
    before,
  ]);
  expect(records).toEqual([
    { statement: "challenge", outcome: "granted" },
    { statement: "challenge", outcome: "policy_violation" },
    { statement: "challenge", outcome: "key_not_found" },
  ]);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test("a caller who asks for keys that are not there uses up its own rate and no other caller's", async () => {
  const frozen = { rates: createRates(() => 0), signingRates: { perKey: 1, perTenant: 1 } };
  const sign = createChallengeSigning({ ...vault.vault, ...frozen, clock: vault.clock });
  const ask = async (caller: Caller) => {
    const binding = { challenge: bytes(1), challenge_at: now() };
    const answer = await sign(caller, "0".repeat(32), { tenant: "acc-1", binding });
    return isRefusal(answer) ? answer.refused : undefined;
  };
  const outcomes = [await ask(API), await ask(API), await ask(API)];
  expect(outcomes).toEqual(["key_not_found", "key_not_found", "rate_limited"]);
  expect(await ask({ ...API, name: "another" })).toBe("key_not_found");
});
