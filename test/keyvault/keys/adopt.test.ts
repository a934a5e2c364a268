import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let agent: string;

beforeAll(async () => {
  vault = await startVault();
  agent = (await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "old" })).key_id;
});
afterAll(() => vault.close());

const answerChallenge = () =>
  createChallengeSigning({ ...vault.vault, clock: vault.clock })(API, agent, {
    tenant: "acc-1",
    binding: {
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
  });
const unseal = () =>
  vault.home.sql("UPDATE keys SET state_seq = NULL, state_mac = NULL WHERE key_id = $1", [agent]);

test("a row without a code is taken over once in a vault's life, by the first start that knows codes", async () => {
  await vault.home.sql("ALTER TABLE audit DISABLE TRIGGER audit_append_only");
  const [adopted] = await vault.home.sql<{ seq: number; statement: string }>(
    "SELECT seq, statement FROM audit ORDER BY seq LIMIT 1",
  );
  expect(adopted?.statement).toBe("state_adopt");
  await vault.home.sql("UPDATE audit SET statement = 'call' WHERE seq = $1", [adopted?.seq]);
  await unseal();
  await vault.home.sql("UPDATE tenants SET state_seq = NULL, state_mac = NULL");
  vault = await vault.restart();
  expect(await answerChallenge()).toHaveProperty("challenge_sig");
  const records = await vault.home.sql(
    "SELECT role, detail FROM audit WHERE statement = 'state_adopt' ORDER BY seq",
  );
  expect(records).toEqual([
    { role: "local", detail: { rows: "3" } },
    { role: "local", detail: { rows: "0" } },
  ]);
});

test("afterwards a row without a code is a damaged one", async () => {
  await unseal();
  vault = await vault.restart();
  await expect(answerChallenge()).rejects.toMatchObject({ code: "key_damaged" });
});
