import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { createCeilingShrinking, createKeyDisabling } from "../../../keyvault/keys/change.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createKeyStore } from "../../../keyvault/keys/store.ts";
import { createKeyListing } from "../../../keyvault/keys/view.ts";
import { createChallengeSigning } from "../../../keyvault/sign/challenge.ts";
import { createDelegationSigning } from "../../../keyvault/sign/delegation.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { API, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;
let other: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  agent = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "one" });
  other = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "two" });
  await vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "three" });
});
afterAll(() => vault.close());

const parts = () => ({ ...vault.vault, clock: vault.clock });
const answerChallenge = (keyId: string) =>
  createChallengeSigning(parts())(API, keyId, {
    tenant: "acc-1",
    binding: {
      challenge: Buffer.alloc(32, 1).toString("base64"),
      challenge_at: unixSeconds(vault.clock.now()),
    },
  });
const delegateTo = (subject: CreatedKey, publicKey = subject.public_key) => {
  const now = unixSeconds(vault.clock.now());
  return createDelegationSigning({ ...parts(), policy: vault.home.config.delegations })(API, root.key_id, {
    tenant: "acc-1",
    certificate: {
      cert_id: `cert-${randomUUID()}`,
      version: 1,
      issuer_id: root.key_id,
      subject_id: subject.key_id,
      subject_pub_key: publicKey,
      scope: ["data:read"],
      constraints: [],
      issued_at: now,
      expires_at: now + 60,
    },
    approval: { ceiling: ["data:read"], request_id: "r", approved_by: "u" },
  });
};

/**
 * Runs `during` while a column of the agent's row has another value, as somebody with the database's rights
 * could give it.
 */
async function altered(
  column: string,
  value: string,
  during: () => Promise<unknown>,
  table = "keys",
  where = `key_id = '${agent.key_id}'`,
) {
  await vault.home.sql(`create table kept as select ${column} as value from ${table} where ${where}`);
  await vault.home.sql(`update ${table} set ${column} = ${value} where ${where}`);
  vault.vault.store.changed();
  vault.vault.dataKeys.clear();
  try {
    await during();
  } finally {
    await vault.home.sql(
      `update ${table} set ${column} = (select value from kept) where ${where}; drop table kept`,
    );
    vault.vault.store.changed();
    vault.vault.dataKeys.clear();
  }
}

const ofOther = (column: string) => `(select o.${column} from keys o where o.key_id = '${other.key_id}')`;

test("works while nothing is altered", async () => {
  expect(await answerChallenge(agent.key_id)).toHaveProperty("challenge_sig");
  expect(await delegateTo(agent)).toHaveProperty("signature");
});

test.each([
  [
    "a flipped bit of the wrapped seeds",
    "wrapped_seeds",
    () => "set_bit(wrapped_seeds, 200, 1 - get_bit(wrapped_seeds, 200))",
  ],
  ["another key's wrapped seeds", "wrapped_seeds", () => ofOther("wrapped_seeds")],
  ["another key's public key", "public_key", () => ofOther("public_key")],
  ["another key's public key and attestation", "attestation", () => ofOther("attestation")],
  ["another purpose", "purpose", () => "'account_root'"],
  ["another tenant", "tenant", () => "'acc-2'"],
  ["another version", "seeds_version", () => "2"],
])("finds %s, and does not sign", async (_, column, value) => {
  const { seq } = vault.vault.journal.head();
  await altered(column, value(), async () => {
    await expect(answerChallenge(agent.key_id)).rejects.toMatchObject({ code: "key_damaged" });
  });
  const failed = await vault.home.sql<{ statement: string; key_id: string }>(
    "select statement, key_id from audit where seq > $1 and outcome = 'failed' order by seq",
    [seq],
  );
  expect(failed).toEqual([{ statement: "challenge", key_id: agent.key_id }]);
  expect(await answerChallenge(agent.key_id)).toHaveProperty("challenge_sig");
});

test.each([
  ["a disabled key made active again", "state = 'active', disabled_at = NULL"],
  ["a wider ceiling", `ceiling = '["data:read", "payments:send"]'`],
  ["a ceiling taken away", "ceiling = NULL"],
  [
    "a request of an admin who never made it",
    `pending = '{"action":"enable","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`,
  ],
  ["a code taken away", "state_mac = NULL"],
  ["another record's number", "state_seq = state_seq + 1"],
  [
    "another key's state and code",
    `(state, disabled_at, ceiling, state_seq, state_mac) =
      (select o.state, o.disabled_at, o.ceiling, o.state_seq, o.state_mac from keys o where o.label = 'one')`,
  ],
])("finds %s, and neither signs with the key nor changes it", async (_, change) => {
  const made = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "s", ceiling: ["data:read"] });
  await createKeyDisabling(parts())(API, { keyId: made.key_id, tenant: "acc-1" });
  const challenge = () => answerChallenge(made.key_id);
  expect(await challenge()).toMatchObject({ refused: "key_disabled" });
  await vault.home.sql(`update keys set ${change} where key_id = '${made.key_id}'`);
  vault.vault.store.changed();
  await expect(challenge()).rejects.toMatchObject({ code: "key_damaged" });
  await expect(
    createCeilingShrinking(parts())(API, { keyId: made.key_id, tenant: "acc-1" }, []),
  ).rejects.toMatchObject({ code: "key_damaged" });
  const listed = await createKeyListing(vault.vault)({ tenant: "acc-1", limit: 100 });
  expect(listed.keys.filter(({ damaged }) => damaged).map(({ key_id }) => key_id)).toContain(made.key_id);
  await vault.home.sql("delete from keys where key_id = $1", [made.key_id]);
});

test("finds an earlier state put back with the code it had, for the record of the change is later", async () => {
  const { key_id } = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "back" });
  await vault.home.sql("create table earlier as select * from keys where key_id = $1", [key_id]);
  await createKeyDisabling(parts())(API, { keyId: key_id, tenant: "acc-1" });
  await vault.home.sql(`update keys k set state = e.state, disabled_at = e.disabled_at, state_seq = e.state_seq,
    state_mac = e.state_mac from earlier e where k.key_id = e.key_id`);
  await vault.home.sql("drop table earlier");
  vault.vault.store.changed();
  await expect(answerChallenge(key_id)).rejects.toMatchObject({ code: "key_damaged" });
  await vault.home.sql("delete from keys where key_id = $1", [key_id]);
});

test("makes no further root for a tenant whose root's ceiling was altered, or put back to an earlier one", async () => {
  const tenant = "acc-bounded";
  const order = { tenant, purpose: "account_root", label: "root" } as const;
  const first = await vault.makeKey({ ...order, ceiling: ["data:read", "data:share"] });
  const where = `key_id = '${first.key_id}'`;
  const wider = { ...order, ceiling: ["data:read", "data:share", "files:read"] };
  await expect(vault.makeKey(wider)).rejects.toThrow(/policy_violation/);
  for (const forged of ["NULL", `'["data:read", "data:share", "files:read"]'`]) {
    await altered(
      "ceiling",
      forged,
      async () => {
        await expect(vault.makeKey(wider), forged).rejects.toMatchObject({ code: "key_damaged" });
      },
      "keys",
      where,
    );
  }
  const [before] = await vault.home.sql<{ ceiling: object; state_seq: number; state_mac: Buffer }>(
    `select ceiling, state_seq, state_mac from keys where ${where}`,
  );
  await createCeilingShrinking(parts())(API, { keyId: first.key_id, tenant }, ["data:read"]);
  await vault.home.sql(`update keys set ceiling = $1, state_seq = $2, state_mac = $3 where ${where}`, [
    JSON.stringify(before?.ceiling),
    before?.state_seq,
    before?.state_mac,
  ]);
  const former = { ...order, ceiling: ["data:share"] };
  await expect(vault.makeKey(former)).rejects.toMatchObject({ code: "key_damaged" });
  const [record] = await vault.home.sql(
    "select statement, outcome from audit where statement = 'key_create' order by seq desc limit 1",
  );
  expect(record).toEqual({ statement: "key_create", outcome: "failed" });
});

test.each([
  ["deleted", "delete from keys where key_id = $1"],
  ["given to another tenant", "update keys set tenant = 'acc-2' where key_id = $1"],
  ["called an agent's", "update keys set purpose = 'agent' where key_id = $1"],
])("makes no further root for a tenant one of whose roots was %s in the database", async (how, change) => {
  const order = { tenant: `acc-${how}`, purpose: "account_root", label: "root" } as const;
  const [first] = [
    await vault.makeKey({ ...order, ceiling: ["data:read"] }, `${how}:first`),
    await vault.makeKey({ ...order, ceiling: ["data:read"] }),
  ];
  await vault.makeKey({ ...order, ceiling: ["data:read"] }, `${how}:first`);
  await vault.home.sql(change, [first.key_id]);
  for (const bounds of [{ ceiling: ["data:read"] }, {}]) {
    await expect(vault.makeKey({ ...order, ...bounds })).rejects.toMatchObject({ code: "key_damaged" });
  }
  await vault.makeKey({ ...order, purpose: "agent", ceiling: [] });
  await vault.home.sql("delete from keys where key_id = $1", [first.key_id]);
});

test("finds a tenant's state that was altered, and makes no key for it", async () => {
  await vault.home.sql("update tenants set state_seq = state_seq + 1 where tenant = 'acc-2'");
  await expect(vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "four" })).rejects.toMatchObject({
    code: "key_damaged",
  });
  await vault.home.sql("update tenants set state_seq = state_seq - 1 where tenant = 'acc-2'");
  await vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "four" });
});

test("finds a tenant's data key that was altered or is another tenant's", async () => {
  const tenants: [string, string, string] = ["wrapped_data_key", "tenants", "tenant = 'acc-1'"];
  const values = [
    "set_bit(wrapped_data_key, 100, 1 - get_bit(wrapped_data_key, 100))",
    "(select o.wrapped_data_key from tenants o where o.tenant = 'acc-2')",
  ];
  for (const value of values) {
    const check = () => expect(answerChallenge(agent.key_id)).rejects.toMatchObject({ code: "key_damaged" });
    await altered(tenants[0], value, check, tenants[1], tenants[2]);
  }
  expect(await answerChallenge(agent.key_id)).toHaveProperty("challenge_sig");
});

test("does not delegate to a subject whose stored public key was swapped for the attacker's", async () => {
  await altered("public_key", ofOther("public_key"), async () => {
    await expect(delegateTo(agent, other.public_key)).rejects.toMatchObject({ code: "key_damaged" });
    await expect(delegateTo(agent)).rejects.toMatchObject({ code: "key_damaged" });
  });
  const records = await vault.home.sql("select statement, outcome from audit order by seq desc limit 2");
  expect(records).toEqual([
    { statement: "delegation", outcome: "failed" },
    { statement: "delegation", outcome: "failed" },
  ]);
});

test("a signature that fails after its grant was recorded leaves a record that says so", async () => {
  await altered("wrapped_seeds", ofOther("wrapped_seeds"), async () => {
    await expect(answerChallenge(agent.key_id)).rejects.toMatchObject({ code: "key_damaged" });
  });
  const records = await vault.home.sql(
    "select outcome from audit where key_id = $1 order by seq desc limit 2",
    [agent.key_id],
  );
  expect(records).toEqual([{ outcome: "failed" }, { outcome: "granted" }]);
  expect((await vault.verifyAudit()).intact).toBe(true);
});

test.each([
  ["public key", "public_key", () => ofOther("public_key")],
  ["attestation", "attestation", () => ofOther("attestation")],
  ["tenant", "tenant", () => "'acc-2'"],
  ["purpose", "purpose", () => "'account_root'"],
  ["ceiling", "ceiling", () => `'["data:read"]'`],
  ["request", "request_hash", () => ofOther("request_hash")],
])("a key whose %s was altered is not given again to who made it", async (_, column, value) => {
  const order = { tenant: "acc-1", purpose: "agent", label: "again", ceiling: [] } as const;
  const make = () => vault.makeKey({ ...order, ceiling: [] }, "damage:again");
  const made = await make();
  const { seq } = vault.vault.journal.head();
  await altered(
    column,
    value(),
    () => expect(make()).rejects.toMatchObject({ code: "key_damaged" }),
    "keys",
    `key_id = '${made.key_id}'`,
  );
  const records = await vault.home.sql("select statement, outcome, key_id from audit where seq > $1", [seq]);
  expect(records).toEqual([{ statement: "key_create", outcome: "failed", key_id: made.key_id }]);
  expect(await make()).toEqual(made);
});

const listedAsDamaged = async () =>
  (await createKeyListing(vault.vault)({ tenant: "acc-1", limit: 500 })).keys
    .filter(({ damaged }) => damaged)
    .map(({ key_id }) => key_id);

test.each([
  ["another key's public key", "public_key", () => ofOther("public_key")],
  ["no public key", "public_key", () => "'null'"],
  ["another key's attestation", "attestation", () => ofOther("attestation")],
  ["no attestation", "attestation", () => "'null'"],
  ["an attestation without a signature", "attestation", () => "attestation - 'signature'"],
  ["another purpose", "purpose", () => "'account_root'"],
  ["another label", "label", () => ofOther("label || key_id")],
])("a key with %s is listed as damaged, beside the others, and signs nothing", async (_, column, value) => {
  expect(await listedAsDamaged()).not.toContain(agent.key_id);
  await altered(column, value(), async () => {
    expect(await listedAsDamaged()).toContain(agent.key_id);
    expect(await listedAsDamaged()).not.toContain(root.key_id);
    await expect(answerChallenge(agent.key_id)).rejects.toMatchObject({ code: "key_damaged" });
  });
});

test("all keys of a tenant whose state was altered are listed as damaged, and sign nothing", async () => {
  const check = async () => {
    expect(await listedAsDamaged()).toEqual(expect.arrayContaining([agent.key_id, root.key_id]));
    await expect(answerChallenge(agent.key_id)).rejects.toMatchObject({ code: "key_damaged" });
  };
  await altered("state_seq", "state_seq + 1", check, "tenants", "tenant = 'acc-1'");
  expect(await answerChallenge(agent.key_id)).toHaveProperty("challenge_sig");
});

test("what is read of a key while it changes is not remembered", async () => {
  const { database, rowCodes, store, serviceId } = {
    ...vault.vault,
    serviceId: agent.attestation.attested_by,
  };
  const service = (await store.find(serviceId))!.publicKey;
  const made = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "changing" });
  const disable = createKeyDisabling({ ...parts(), store: { ...store, changed: (id) => late.changed(id) } });
  let changes = 1;
  const slow = {
    ...rowCodes,
    async check(rows: Parameters<typeof rowCodes.check>[0]) {
      const holds = await rowCodes.check(rows);
      if (changes-- > 0) await disable(API, { keyId: made.key_id, tenant: "acc-1" });
      return holds;
    },
  };
  const late = createKeyStore(database, slow, () => service);
  expect((await late.find(made.key_id))?.state).toBe("active");
  expect((await late.find(made.key_id))?.state).toBe("disabled");
});

test.each([
  ["an end that never comes", "state = 'destroying', disabled_at = now(), destroy_at = 'infinity'"],
  ["an end beyond all time", "state = 'destroying', disabled_at = now(), destroy_at = '294276-01-01'"],
  ["a wish that is no JSON of ours", `pending = '{"days": 1e400}'`],
  ["a ceiling that is none", "ceiling = '1e400'"],
])("a key with %s is damaged, by its list as well, and keeps no other from being listed", async (_, lie) => {
  const made = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "odd", ceiling: [] });
  await vault.home.sql(`update keys set ${lie} where key_id = $1`, [made.key_id]);
  vault.vault.store.changed();
  expect(await listedAsDamaged()).toEqual([made.key_id]);
  await expect(answerChallenge(made.key_id)).rejects.toMatchObject({ code: "key_damaged" });
  await expect(
    createKeyDisabling(parts())(API, { keyId: made.key_id, tenant: "acc-1" }),
  ).rejects.toMatchObject({ code: "key_damaged" });
  await vault.home.sql("delete from keys where key_id = $1", [made.key_id]);
});

test("a key of an impossible age is listed with the others", async () => {
  await altered("created_at", "'infinity'", async () => {
    const { keys } = await createKeyListing(vault.vault)({ tenant: "acc-1", limit: 500 });
    expect(keys.map(({ key_id }) => key_id)).toEqual(expect.arrayContaining([agent.key_id, root.key_id]));
  });
});

test("a request's name given to another tenant's key in the database answers nothing", async () => {
  const order = { tenant: "acc-1", purpose: "agent", label: "named", ceiling: [] } as const;
  const make = () => vault.makeKey({ ...order, ceiling: [] }, "damage:named");
  const mine = await make();
  const foreign = await vault.makeKey({ ...order, tenant: "acc-2", ceiling: [] });
  await vault.home.sql("update keys set request_key = 'damage:elsewhere' where key_id = $1", [mine.key_id]);
  await vault.home.sql(
    `update keys set request_key = 'damage:named', request_hash = (select o.request_hash from keys o where o.key_id = $2)
     where key_id = $1`,
    [foreign.key_id, mine.key_id],
  );
  await expect(make()).rejects.toMatchObject({ code: "key_damaged" });
});

test("a revocation list that fails after its grant was recorded leaves a record that says so", async () => {
  const { seq } = vault.vault.journal.head();
  const list = () =>
    createListSigning(parts())(API, root.key_id, {
      tenant: "acc-1",
      updated_at: unixSeconds(vault.clock.now()),
      revoked_certs: ["cert-1"],
      expires_at: [0],
    });
  const where = `key_id = '${root.key_id}'`;
  const fails = () => expect(list()).rejects.toMatchObject({ code: "key_damaged" });
  await altered("wrapped_seeds", ofOther("wrapped_seeds"), fails, "keys", where);
  const records = await vault.home.sql("select statement, outcome from audit where seq > $1 order by seq", [
    seq,
  ]);
  expect(records).toEqual([
    { statement: "revocation_list", outcome: "granted" },
    { statement: "revocation_list", outcome: "failed" },
  ]);
  expect(await list()).toHaveProperty("signature");
});
