import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createCalls, type Operations } from "../../keyvault/http/calls.ts";
import { createErasing } from "../../keyvault/lifecycle/erase_due.ts";
import { heldRows } from "../support/held_rows.ts";
import { codeOf, issueIdentity, STATEMENTS, startVault, type TestVault } from "./fixture.ts";
import type { Client } from "./http/caller_support.ts";

const WEEK = { after_days: 7 };
const FORGED = { action: "destroy", admin: "x", asked_at: "2026-01-01T00:00:00Z" };
const WEEK_SECONDS = 7 * 86_400;

let vault: TestVault;
let pool: pg.Pool;
let alice: Client;
let bob: Client;
let keys = 0;

beforeAll(async () => {
  vault = await startVault();
  pool = new pg.Pool({ connectionString: vault.home.config.migrationDatabaseUrl, max: 2 });
  const years = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 1e11) };
  const admin = (name: string) => issueIdentity(vault.home, { kind: "client", role: "admin", name }, years);
  [alice, bob] = await Promise.all([admin("alice"), admin("bob")]);
});
afterAll(async () => {
  await pool.end();
  await vault.close();
});

const { hold, untilBlocked } = heldRows(() => pool);

/** A key, and the requests that tests make about it or its tenant. */
async function subjectOf() {
  const tenant = `acc-${++keys}`;
  const { key_id: key } = await vault.makeAgent(tenant);
  const onKey = async (client: Client, action: string, body = {}) =>
    codeOf(await vault.post(`/v1/keys/${key}/${action}`, body, client));
  const onTenant = async (client: Client, action: string, body = {}) =>
    codeOf(await vault.post(`/v1/tenants/${tenant}/${action}`, body, client));
  const erase = () => createErasing(vault.parts())();
  return { tenant, key, onKey, onTenant, erase };
}

async function both(ask: (admin: Client) => Promise<unknown>): Promise<void> {
  await ask(alice);
  await ask(bob);
}

type Subject = Awaited<ReturnType<typeof subjectOf>>;

/** The row that a change holds, the calls before the change, the change, and its answer to an altered row. */
type Change = {
  row: "key" | "tenant";
  before?: (subject: Subject) => Promise<unknown>;
  change: (subject: Subject) => Promise<unknown>;
  refused?: object;
};

const CHANGES: Record<string, Change> = {
  "POST /v1/keys": {
    row: "tenant",
    async change({ tenant }) {
      const body = { tenant, purpose: "agent", label: "second", ceiling: [] };
      const headers = { "idempotency-key": `second of ${tenant}`.replaceAll(" ", "-") };
      return codeOf(await vault.post("/v1/keys", body, vault.api, headers));
    },
  },
  "POST /v1/keys/:id/disable": { row: "key", change: ({ onKey }) => onKey(alice, "disable") },
  "POST /v1/keys/:id/ceiling": {
    row: "key",
    change: ({ onKey, tenant }) => onKey(vault.api, "ceiling", { tenant, ceiling: [] }),
  },
  "POST /v1/keys/:id/enable": {
    row: "key",
    before: ({ onKey }) => onKey(alice, "disable").then(() => onKey(alice, "enable")),
    change: ({ onKey }) => onKey(bob, "enable"),
  },
  "POST /v1/keys/:id/destroy": {
    row: "key",
    before: ({ onKey }) => onKey(alice, "destroy", WEEK),
    change: ({ onKey }) => onKey(bob, "destroy", WEEK),
  },
  "POST /v1/keys/:id/destroy/cancel": {
    row: "key",
    before: ({ onKey }) => both((admin) => onKey(admin, "destroy", WEEK)),
    change: ({ onKey }) => onKey(alice, "destroy/cancel"),
  },
  "POST /v1/tenants/:tenant/destroy": {
    row: "tenant",
    before: ({ onTenant }) => onTenant(alice, "destroy", WEEK),
    change: ({ onTenant }) => onTenant(bob, "destroy", WEEK),
  },
  "POST /v1/tenants/:tenant/destroy/cancel": {
    row: "tenant",
    before: ({ onTenant }) => both((admin) => onTenant(admin, "destroy", WEEK)),
    change: ({ onTenant }) => onTenant(alice, "destroy/cancel"),
  },
  "the erasure of a key": {
    row: "key",
    before: ({ onKey }) => both((admin) => onKey(admin, "destroy", WEEK)),
    change: ({ erase }) => erase(),
    refused: { keys: 0, tenants: 0 },
  },
  "the erasure of a tenant": {
    row: "tenant",
    before: ({ onTenant }) => both((admin) => onTenant(admin, "destroy", WEEK)),
    change: ({ erase }) => erase(),
    refused: { keys: 0, tenants: 0 },
  },
};

/** Calls that change no state of a key or tenant. The last test holds a row that a rewrapping needs. */
const OTHERS = [
  ...STATEMENTS.map((kind) => `POST /v1/keys/:id/sign/${kind}`),
  ...["/v1/backup", "/v1/states/adopt", "/v1/kek/rotate", "/v1/kek/rewrap", "/v1/kek/retire"].map(
    (path) => `POST ${path}`,
  ),
];

test("the table of held rows contains every call that changes a key or a tenant", () => {
  const calls = createCalls({} as Operations).filter(({ method }) => method === "POST");
  const known = [...Object.keys(CHANGES), ...OTHERS];
  for (const { path } of calls) expect(known).toContain(`POST ${path}`);
});

/** Alters a row in a transaction, runs `work` until it waits for the row, and commits the transaction. */
async function whileHeld<T>(text: string, values: unknown[], work: () => Promise<T>): Promise<T> {
  const row = await hold(text, values);
  const working = work();
  await Promise.race([untilBlocked().catch(() => {}), working]);
  await row.commit();
  return working;
}

test.each(Object.entries(CHANGES))(
  "%s waits for its row, and does not overwrite what another transaction changed",
  async (_, { row, before, change, refused }) => {
    const subject = await subjectOf();
    await before?.(subject);
    if (refused !== undefined) vault.clock.move(WEEK_SECONDS);
    const [table, name, altered] =
      row === "key" ? ["keys", "key_id", { label: "altered" }] : ["tenants", "tenant", { pending: FORGED }];
    const [column = "", value] = Object.entries(altered)[0] ?? [];
    const id = row === "key" ? subject.key : subject.tenant;
    const stored = () => vault.home.sql(`select * from ${table} where ${name} = $1`, [id]);
    const [former] = await stored();
    const seq = vault.head();
    const alter = `update ${table} set ${column} = $2 where ${name} = $1`;
    const answer = await whileHeld(alter, [id, value], () => change(subject));
    expect(answer).toEqual(refused ?? "key_damaged");
    expect(await stored()).toEqual([{ ...former, ...altered }]);
    const records = await vault.home.sql(
      "select outcome from audit where seq > $1 and $2 in (key_id, detail->>'tenant')",
      [seq, id],
    );
    expect(records).toEqual([{ outcome: "failed" }]);
  },
);

test("POST /v1/keys holds its tenant's row until the key is stored", async () => {
  const { tenant, key } = await subjectOf();
  const second = "f".repeat(32);
  const sameRequest = await hold(
    `insert into keys select (jsonb_populate_record(keys, $2)).* from keys where key_id = $1`,
    [key, { key_id: second, request_key: "api:of-second-key", tenant: "vault" }],
  );
  const body = { tenant, purpose: "agent", label: "second", ceiling: [] };
  const creating = vault.post("/v1/keys", body, vault.api, { "idempotency-key": "of-second-key" });
  await Promise.race([untilBlocked(), creating]);
  const locking = vault.home.sql("select from tenants where tenant = $1 for no key update nowait", [tenant]);
  await expect(locking).rejects.toMatchObject({ code: "55P03" });
  await sameRequest.run("delete from keys where key_id = $1", [second]);
  await sameRequest.commit();
  expect(codeOf(await creating)).toBe(200);
});

test("a rewrapping waits for a tenant's row, and does not restore a data key that was erased meanwhile", async () => {
  const { tenant } = await subjectOf();
  await vault.post("/v1/kek/rotate", {}, alice);
  const isDone = async () => {
    await vault.post("/v1/kek/rewrap", {}, alice);
    await expect
      .poll(async () => (await vault.get("/v1/status")).body.kek, { timeout: 20_000 })
      .toMatchObject({ running: false, fault: null });
  };
  const erase = "update tenants set wrapped_data_key = '' where tenant = $1";
  await whileHeld(erase, [tenant], isDone);
  const rows = await vault.home.sql("select kek, wrapped_data_key from tenants where tenant = $1", [tenant]);
  expect(rows).toEqual([{ kek: "kek-1", wrapped_data_key: Buffer.alloc(0) }]);
  const others = await vault.home.sql("select from tenants where kek = 'kek-1' and tenant <> $1", [tenant]);
  expect(others).toEqual([]);
});
