import { afterAll, beforeAll, expect, test } from "vitest";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { createKeyListing } from "../../../keyvault/keys/view.ts";
import { createDelegationSigning } from "../../../keyvault/sign/delegation.ts";
import { createListSigning } from "../../../keyvault/sign/revocation_list.ts";
import { API, startVault, type TestVault } from "../fixture.ts";
import { delegationRequest } from "../sign/delegation_request.ts";

/* Rows that somebody with the database role's rights has altered. */

let vault: TestVault;
let root: CreatedKey;
let agent: CreatedKey;
let other: CreatedKey;

const NAMED = { tenant: "acc-1", purpose: "agent", label: "one" } as const;

beforeAll(async () => {
  vault = await startVault();
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
  agent = await vault.makeKey(NAMED, "damage:one");
  other = await vault.makeKey({ tenant: "acc-1", purpose: "agent", label: "two" });
  await vault.makeAgent("acc-2");
});
afterAll(() => vault.close());

const damaged = { code: "key_damaged" };
const delegateTo = (publicKey = agent.public_key) =>
  createDelegationSigning({ ...vault.parts(), policy: vault.home.config.delegations })(
    API,
    root.key_id,
    delegationRequest(root, { ...agent, public_key: publicKey }, vault.now()),
  );
const listedAsDamaged = async () =>
  (await createKeyListing(vault.vault)({ tenant: "acc-1", limit: 500 })).keys
    .filter((key) => key.damaged)
    .map(({ key_id }) => key_id);

/** Runs `during` while a column of a row, by default the agent's, has another value. */
async function altered(
  column: string,
  value: string,
  during: () => Promise<unknown>,
  [table, where] = ["keys", `key_id = '${agent.key_id}'`],
) {
  const forget = () => {
    vault.vault.store.changed();
    vault.vault.dataKeys.clear();
  };
  await vault.home.sql(
    `create table kept as select ${column} as value from ${table} where ${where};
     update ${table} set ${column} = ${value} where ${where}`,
  );
  forget();
  try {
    await during();
  } finally {
    await vault.home.sql(
      `update ${table} set ${column} = (select value from kept) where ${where}; drop table kept`,
    );
    forget();
  }
}

const ofOther = (column: string) => `(select o.${column} from keys o where o.key_id = '${other.key_id}')`;
const TENANT = ["tenants", "tenant = 'acc-1'"] as [string, string];

test("an unaltered key signs, accepts delegations and is not listed as damaged", async () => {
  expect(await vault.answer(agent.key_id)).toHaveProperty("challenge_sig");
  expect(await delegateTo()).toHaveProperty("signature");
  expect(await listedAsDamaged()).toEqual([]);
});

test.each([
  [
    "a flipped bit of the wrapped seeds",
    "wrapped_seeds",
    () => "set_bit(wrapped_seeds, 200, 1 - get_bit(wrapped_seeds, 200))",
    false,
  ],
  ["another key's wrapped seeds", "wrapped_seeds", () => ofOther("wrapped_seeds"), false],
  ["another version", "seeds_version", () => "2", false],
  ["another tenant", "tenant", () => "'acc-2'", false],
  ["another key's public key", "public_key", () => ofOther("public_key"), true],
  ["a missing public key", "public_key", () => "'null'", true],
  ["another key's attestation", "attestation", () => ofOther("attestation"), true],
  ["a missing attestation", "attestation", () => "'null'", true],
  ["an attestation without a signature", "attestation", () => "attestation - 'signature'", true],
  ["another purpose", "purpose", () => "'account_root'", true],
  ["another label", "label", () => ofOther("label || key_id"), true],
])(
  "a key with %s signs nothing, the attempt is recorded, and a list that shows the column %s marks the key as damaged",
  async (_, column, value, isListed) => {
    const seq = vault.head();
    await altered(column, value(), async () => {
      expect(await listedAsDamaged()).toEqual(isListed ? [agent.key_id] : []);
      await expect(vault.answer(agent.key_id)).rejects.toMatchObject(damaged);
    });
    const failed = await vault.home.sql(
      "select statement, key_id from audit where seq > $1 and outcome = 'failed' order by seq",
      [seq],
    );
    expect(failed).toEqual([{ statement: "challenge", key_id: agent.key_id }]);
  },
);

test.each([
  ["public key", "public_key", () => ofOther("public_key")],
  ["attestation", "attestation", () => ofOther("attestation")],
  ["tenant", "tenant", () => "'acc-2'"],
  ["purpose", "purpose", () => "'account_root'"],
  ["ceiling", "ceiling", () => `'["data:read"]'`],
  ["request", "request_hash", () => ofOther("request_hash")],
])("a key whose %s was altered is not returned to a repeated creation", async (_, column, value) => {
  const make = () => vault.makeKey(NAMED, "damage:one");
  const seq = vault.head();
  await altered(column, value(), () => expect(make()).rejects.toMatchObject(damaged));
  const records = await vault.home.sql("select statement, outcome, key_id from audit where seq > $1", [seq]);
  expect(records).toEqual([{ statement: "key_create", outcome: "failed", key_id: agent.key_id }]);
  expect(await make()).toEqual(agent);
});

test.each([
  ["that was made active", "state = 'active', disabled_at = NULL"],
  ["with a wider ceiling", `ceiling = '["data:read", "payments:send"]'`],
  ["without its ceiling", "ceiling = NULL"],
  ["with an invalid ceiling", "ceiling = '1e400'"],
  [
    "with a forged request by an admin",
    `pending = '{"action":"enable","admin":"x","asked_at":"2026-01-01T00:00:00Z"}'`,
  ],
  ["with a malformed pending request", `pending = '{"days": 1e400}'`],
  ["without its code", "state_mac = NULL"],
  ["with another record's number", "state_seq = state_seq + 1"],
  [
    "with another key's state and code",
    `(state, disabled_at, ceiling, state_seq, state_mac) =
    (select o.state, o.disabled_at, o.ceiling, o.state_seq, o.state_mac from keys o where o.label = 'one')`,
  ],
  ["with an infinite erasure date", "state = 'destroying', disabled_at = now(), destroy_at = 'infinity'"],
  [
    "with an impossible erasure date",
    "state = 'destroying', disabled_at = now(), destroy_at = '294276-01-01'",
  ],
])("a disabled key %s neither signs nor changes, and is the only one listed as damaged", async (_, lie) => {
  const { key_id } = await vault.makeAgent("acc-1");
  await vault.disable(key_id, "acc-1");
  expect(await vault.answer(key_id)).toMatchObject({ refused: "key_disabled" });
  await vault.home.sql(`update keys set ${lie} where key_id = '${key_id}'`);
  vault.vault.store.changed();
  await expect(vault.answer(key_id)).rejects.toMatchObject(damaged);
  await expect(vault.shrink(key_id, "acc-1", [])).rejects.toMatchObject(damaged);
  expect(await listedAsDamaged()).toEqual([key_id]);
  await vault.home.sql("delete from keys where key_id = $1", [key_id]);
});

test("a key set back to an earlier state with its valid code is damaged, because a later record changed the state", async () => {
  const { key_id } = await vault.makeAgent("acc-1");
  await vault.home.sql("create table earlier as select * from keys where key_id = $1", [key_id]);
  await vault.disable(key_id, "acc-1");
  await vault.home.sql(`update keys k set state = e.state, disabled_at = e.disabled_at, state_seq = e.state_seq,
    state_mac = e.state_mac from earlier e where k.key_id = e.key_id; drop table earlier`);
  vault.vault.store.changed();
  await expect(vault.answer(key_id)).rejects.toMatchObject(damaged);
  await vault.home.sql("delete from keys where key_id = $1", [key_id]);
});

test("a tenant gets no further root key if its root key's ceiling was altered or set back", async () => {
  const tenant = "acc-bounded";
  const order = { tenant, purpose: "account_root", label: "root" } as const;
  const { key_id } = await vault.makeKey({ ...order, ceiling: ["data:read", "data:share"] });
  const where = `key_id = '${key_id}'`;
  const wider = { ...order, ceiling: ["data:read", "data:share", "files:read"] };
  await expect(vault.makeKey(wider)).rejects.toThrow(/policy_violation/);
  for (const forged of ["NULL", `'["data:read", "data:share", "files:read"]'`]) {
    const refused = () => expect(vault.makeKey(wider), forged).rejects.toMatchObject(damaged);
    await altered("ceiling", forged, refused, ["keys", where]);
  }
  await vault.home.sql(
    `create table earlier as select ceiling, state_seq, state_mac from keys where ${where}`,
  );
  await vault.shrink(key_id, tenant, ["data:read"]);
  await vault.home.sql(
    `update keys set (ceiling, state_seq, state_mac) = (select ceiling, state_seq, state_mac from earlier)
     where ${where}; drop table earlier`,
  );
  const seq = vault.head();
  await expect(vault.makeKey({ ...order, ceiling: ["data:share"] })).rejects.toMatchObject(damaged);
  expect(await vault.recordsAfter(seq)).toEqual([{ statement: "key_create", outcome: "failed" }]);
});

test.each([
  ["deleted", "delete from keys where key_id = $1"],
  ["given to another tenant", "update keys set tenant = 'acc-2' where key_id = $1"],
  ["changed to an agent's key", "update keys set purpose = 'agent' where key_id = $1"],
])(
  "a tenant gets no further root key if one of its root keys was %s in the database",
  async (how, change) => {
    const order = { tenant: `acc-${how}`, purpose: "account_root", label: "root" } as const;
    const first = await vault.makeKey({ ...order, ceiling: ["data:read"] });
    await vault.makeKey({ ...order, ceiling: ["data:read"] });
    await vault.home.sql(change, [first.key_id]);
    for (const bounds of [{ ceiling: ["data:read"] }, {}]) {
      await expect(vault.makeKey({ ...order, ...bounds })).rejects.toMatchObject(damaged);
    }
    await vault.makeAgent(order.tenant);
    await vault.home.sql("delete from keys where key_id = $1", [first.key_id]);
  },
);

test("if a tenant's state was altered, its keys are listed as damaged and sign nothing, and it gets no new key", async () => {
  const check = async () => {
    expect(await listedAsDamaged()).toEqual(expect.arrayContaining([agent.key_id, root.key_id]));
    await expect(vault.answer(agent.key_id)).rejects.toMatchObject(damaged);
    await expect(vault.makeAgent("acc-1")).rejects.toMatchObject(damaged);
  };
  await altered("state_seq", "state_seq + 1", check, TENANT);
  await vault.makeAgent("acc-1");
});

test.each([
  ["altered", "set_bit(wrapped_data_key, 100, 1 - get_bit(wrapped_data_key, 100))"],
  [
    "a copy of another tenant's data key",
    "(select o.wrapped_data_key from tenants o where o.tenant = 'acc-2')",
  ],
])("a tenant's data key that is %s makes the tenant's keys damaged", async (_, value) => {
  const refused = () => expect(vault.answer(agent.key_id)).rejects.toMatchObject(damaged);
  await altered("wrapped_data_key", value, refused, TENANT);
  expect(await vault.answer(agent.key_id)).toHaveProperty("challenge_sig");
});

test("a delegation is refused if the subject's stored public key was replaced", async () => {
  const seq = vault.head();
  await altered("public_key", ofOther("public_key"), async () => {
    await expect(delegateTo(other.public_key)).rejects.toMatchObject(damaged);
    await expect(delegateTo()).rejects.toMatchObject(damaged);
  });
  expect(await vault.recordsAfter(seq)).toEqual(
    Array(2).fill({ statement: "delegation", outcome: "failed" }),
  );
});

test.each([
  ["challenge", () => agent, () => vault.answer(agent.key_id)],
  [
    "revocation_list",
    () => root,
    () => {
      const list = { tenant: "acc-1", updated_at: vault.now(), revoked_certs: ["cert-1"], expires_at: [0] };
      return createListSigning(vault.parts())(API, root.key_id, list);
    },
  ],
])("if a %s fails after its granted record, a failed record is written", async (statement, key, sign) => {
  const seq = vault.head();
  const fails = () => expect(sign()).rejects.toMatchObject(damaged);
  await altered("wrapped_seeds", ofOther("wrapped_seeds"), fails, ["keys", `key_id = '${key().key_id}'`]);
  expect(await vault.recordsAfter(seq)).toEqual(
    ["granted", "failed"].map((outcome) => ({ statement, outcome })),
  );
  expect(await sign()).not.toHaveProperty("refused");
});

test("a key with an impossible creation time is listed and does not prevent the listing of other keys", async () => {
  await altered("created_at", "'infinity'", async () => {
    const { keys } = await createKeyListing(vault.vault)({ tenant: "acc-1", limit: 500 });
    expect(keys.map(({ key_id }) => key_id)).toEqual(expect.arrayContaining([agent.key_id, root.key_id]));
  });
});
