import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createKekRetirement, type RetireProgress } from "../../../keyvault/kek/retire.ts";
import { createRewrapping } from "../../../keyvault/kek/rewrap.ts";
import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import type { Token } from "../../../keyvault/token/client.ts";
import { ADMIN, readIdentity, startVault, type TestVault } from "../fixture.ts";
import { call } from "../http/caller_support.ts";

/*
 * The database names the version of each data key, but the database is not trusted. Destroying a version is
 * irreversible. The vault therefore opens every data key before it destroys a version.
 */

type Stored = { tenant: string; kek: string; wrapped_data_key: Buffer };

let vault: TestVault;
/** Rows wrapped under kek-1, as they were before the rewrapping. */
let old: Stored[];

beforeAll(async () => {
  vault = await startVault();
  for (const tenant of ["acc-1", "acc-2", "acc-3"]) await makeKey(tenant);
  old = await stored();
  await vault.vault.token.rotate();
  await rewrap();
});
afterAll(() => vault.close());
beforeEach(async () => {
  expect(vault.vault.token.info().keks).toEqual(["kek-1", "kek-2"]);
});

const makeKey = (tenant: string) => vault.makeKey({ tenant, purpose: "agent", label: "agent" });
const stored = () =>
  vault.home.sql<Stored>("select tenant, kek, wrapped_data_key from tenants order by tenant");
const rewrap = async () => {
  const rewrapping = createRewrapping(vault.vault);
  await rewrapping.start(ADMIN);
  await vi.waitUntil(async () => !(await rewrapping.progress()).running, { timeout: 20_000 });
};
const write = (tenant: string, kek: string, box: Uint8Array) =>
  vault.home.sql(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at) values ($1, $2, $3, now())
     on conflict (tenant) do update set kek = $2, wrapped_data_key = $3`,
    [tenant, kek, Buffer.from(box)],
  );
const oldBox = (tenant: string): Buffer =>
  old.find((row) => row.tenant === tenant)?.wrapped_data_key ?? Buffer.alloc(0);
const lastRecord = async () => {
  const [row] = await vault.home.sql<{ outcome: string; detail: Record<string, string> }>(
    "select outcome, detail from audit where statement = 'kek_retire' order by seq desc limit 1",
  );
  return row;
};
const retirement = (token: Partial<Token> = {}) =>
  createKekRetirement({ ...vault.vault, token: { ...vault.vault.token, ...token } });
const retire = (token?: Partial<Token>) => retirement(token).retire(ADMIN, "kek-1");

const RETIRED = { retired: "kek-1", keks: ["kek-2"] };
const refused = (message: string) => ({ refused: "policy_violation", message });
const needed = (tenant: string) =>
  refused(`kek-1 is kept: 1 data keys need it, though the database says otherwise (tenants ${tenant})`);
const UNOPENED = refused("kek-1 is kept: 1 data keys open under no version (tenants acc-1)");
const WRAPPED = refused("kek-1 still wraps 1 data keys: rewrap them first");

/** Returns a token that runs `meanwhile` after its first proof and never destroys anything. */
function overtaken(meanwhile: () => Promise<unknown>): Partial<Token> & { retired: string[] } {
  const real = vault.vault.token;
  let first = true;
  const retired: string[] = [];
  return {
    retired,
    async findVersions(boxes) {
      const versions = await real.findVersions(boxes);
      if (first) await meanwhile();
      first = false;
      return versions;
    },
    async retire(kek) {
      retired.push(kek);
      return { keks: real.info().keks.filter((label) => label !== kek) };
    },
  };
}

async function restoring<T>(work: () => Promise<T>): Promise<T> {
  const before = await stored();
  try {
    return await work();
  } finally {
    for (const { tenant, kek, wrapped_data_key } of before) await write(tenant, kek, wrapped_data_key);
    await vault.home.sql("update tenants set state = 'active', destroy_at = null");
    await vault.home.sql("delete from tenants where tenant like 'put-%'");
  }
}

const retireAfter = (change: () => Promise<unknown>) => restoring(() => change().then(() => retire()));

/** Changes rows after the proof. Returns the response and the destroyed versions. */
async function retireWhile(meanwhile: () => Promise<unknown>) {
  const token = overtaken(meanwhile);
  const answer = await restoring(() => retire(token));
  return { answer, retired: token.retired };
}

test.each([
  ["whose version was changed in the database", () => write("acc-1", "kek-2", oldBox("acc-1"))],
  ["whose version was changed to one that never existed", () => write("acc-1", "kek-9", oldBox("acc-1"))],
  [
    "of a tenant that the database wrongly lists as destroyed",
    async () => {
      await write("acc-1", "kek-2", oldBox("acc-1"));
      await vault.home.sql(
        "update tenants set state = 'destroyed', destroy_at = now() where tenant = 'acc-1'",
      );
    },
  ],
])(
  "a retirement is refused because of a data key %s, and the refusal names the tenant",
  async (_, change) => {
    expect(await retireAfter(change)).toEqual(needed("acc-1"));
    expect(await lastRecord()).toEqual({
      outcome: "policy_violation",
      detail: { kek: "kek-1", step: "done" },
    });
    const { token } = vault.vault;
    expect((await token.health()).keks).toEqual(["kek-1", "kek-2"]);
    const opened = await token.unwrap({ kek: "kek-1", box: oldBox("acc-1") }, dataKeyContext("acc-1"));
    expect(opened).toHaveLength(32);
  },
);

test.each([
  ["altered", (box: Buffer) => Buffer.concat([box.subarray(0, 59), Buffer.from([(box[59] ?? 0) ^ 1])])],
  ["shortened", (box: Buffer) => box.subarray(0, 59)],
  ["lengthened", (box: Buffer) => Buffer.concat([box, Buffer.alloc(1)])],
])("a retirement is refused if a data key was %s, so that no version opens it", async (_, alter) => {
  const [, box] = (await stored()).map((row) => row.wrapped_data_key);
  const change = async () => {
    for (const tenant of ["put-1", "put-2", "put-3", "put-4"]) {
      await write(tenant, "kek-2", alter(box ?? Buffer.alloc(60)));
    }
    await write("acc-2", "kek-2", oldBox("acc-2"));
  };
  expect(await retireAfter(change)).toMatchObject({
    message:
      "kek-1 is kept: 1 data keys need it, though the database says otherwise (tenants acc-2); " +
      "4 data keys open under no version (tenants put-1, put-2, put-3, …)",
  });
});

test.each([
  ["emptied", "update tenants set wrapped_data_key = '' where tenant = 'acc-2'"],
  ["renamed", "update tenants set tenant = 'acc-0' where tenant = 'acc-2'"],
])("a retirement is refused if a tenant's data key was %s in the database", async (_, lie) => {
  await write("acc-2", "kek-1", oldBox("acc-2"));
  await vault.home.sql("alter table keys drop constraint keys_tenant_fkey");
  await vault.home.sql(`${lie}; update tenants set kek = 'kek-2'`);
  expect(await retire()).toMatchObject({
    refused: "policy_violation",
    message: expect.stringMatching(/acc-[02]\b/),
  });
  expect(await retire()).toMatchObject({ message: expect.stringContaining("tenants acc-") });
  await vault.home.sql("delete from tenants where tenant = 'acc-0'");
  await write("acc-2", "kek-1", oldBox("acc-2"));
  await vault.home.sql(
    "alter table keys add constraint keys_tenant_fkey FOREIGN key (tenant) references tenants",
  );
  await rewrap();
});

test("a retirement is refused if a tenant's row has another tenant's data key, before or after the proof", async () => {
  const foreign = (await stored()).find(({ tenant }) => tenant === "acc-2");
  const change = () => write("acc-1", "kek-2", foreign?.wrapped_data_key ?? Buffer.alloc(0));
  expect(await retireAfter(change)).toEqual(UNOPENED);
  expect(await retireWhile(change)).toEqual({ answer: UNOPENED, retired: [] });
});

test.each([1, 250, 251])(
  "a retirement also checks the data keys of %i tenants that are added after the proof",
  async (count) => {
    const names = Array.from({ length: count }, (_, index) => `put-${String(index).padStart(4, "0")}`);
    const real = vault.vault.token;
    const boxes = await Promise.all(
      names.map((name) => real.wrap(Buffer.alloc(32, 1), dataKeyContext(name))),
    );
    const arrive = async () => {
      await vault.home.sql(
        `insert into tenants (tenant, kek, wrapped_data_key, created_at)
       select name, 'kek-2', box, now() from unnest($1::text[], $2::bytea[]) as made (name, box)`,
        [names, boxes.map(({ box }) => Buffer.from(box))],
      );
    };
    expect(await retireWhile(arrive)).toEqual({ answer: RETIRED, retired: ["kek-1"] });
    const relabelled = await retireWhile(async () => {
      await arrive();
      await write("acc-3", "kek-2", oldBox("acc-3"));
    });
    expect(relabelled).toEqual({ answer: needed("acc-3"), retired: [] });
  },
);

test("a retirement also checks a data key that is created or rewrapped after the proof", async () => {
  const proven = await retireWhile(async () => {
    await makeKey("acc-4");
    const box = await vault.vault.token.wrap(Buffer.alloc(32, 1), dataKeyContext("acc-2"));
    await write("acc-2", box.kek, box.box);
  });
  expect(proven).toEqual({ answer: RETIRED, retired: ["kek-1"] });
});

test("a retirement is refused if, after the proof, a data key is wrapped under the version to retire", async () => {
  const kept = await retireWhile(() => write("acc-1", "kek-1", oldBox("acc-1")));
  expect(kept).toEqual({ answer: WRAPPED, retired: [] });
});

test("a retirement and a rewrapping count a data key whose tenant the database wrongly lists as destroyed", async () => {
  await restoring(async () => {
    await write("acc-1", "kek-1", oldBox("acc-1"));
    await vault.home.sql("update tenants set state = 'destroyed', destroy_at = now() where tenant = 'acc-1'");
    expect(await retire()).toEqual(WRAPPED);
    await rewrap();
    expect((await stored()).map(({ kek }) => kek)).not.toContain("kek-1");
    expect(await retire(overtaken(async () => {}))).toEqual(RETIRED);
  });
});

test("the status shows the progress of a running proof, and null afterwards", async () => {
  const seen: (RetireProgress | null)[] = [];
  const token = overtaken(async () => {
    seen.push(structuredClone(running.progress()));
    await makeKey("acc-5");
  });
  const running = retirement(token);
  expect(running.progress()).toBeNull();
  await running.retire(ADMIN, "kek-1");
  expect(seen).toEqual([{ kek: "kek-1", proven: 0, of: (await stored()).length - 1 }]);
  expect(running.progress()).toBeNull();
});

test("a vault that stops during the proof records the failure and destroys nothing", async () => {
  let stopped: Promise<void> | undefined;
  const token = overtaken(async () => {
    stopped = running.stop();
  });
  const running = retirement(token);
  await expect(running.retire(ADMIN, "kek-1")).rejects.toMatchObject({ code: "unavailable" });
  await stopped;
  expect(stopped).toBeDefined();
  expect(token.retired).toEqual([]);
  expect(await lastRecord()).toEqual({ outcome: "failed", detail: { kek: "kek-1", step: "done" } });
});

test("a token process that exits during the proof loses nothing, and the next attempt succeeds", async () => {
  const real = vault.vault.token;
  const pid = real.pid();
  if (pid === undefined) throw new Error("The token has no process");
  const broken: Partial<Token> = {
    findVersions(boxes) {
      process.kill(pid, "SIGSTOP");
      const answer = real.findVersions(boxes);
      process.kill(pid, "SIGKILL");
      return answer;
    },
    async retire() {
      throw new Error("It is not reached");
    },
  };
  await expect(retire(broken)).rejects.toMatchObject({ code: expect.stringMatching(/unavailable$/) });
  await expect.poll(() => real.pid() !== undefined && real.pid() !== pid, { timeout: 20_000 }).toBe(true);
  await expect.poll(() => real.health().then(({ keks }) => keks, String)).toEqual(["kek-1", "kek-2"]);
  const admin = readIdentity(vault.home, "admin");
  const answer = await call(`${vault.url}/v1/kek/retire`, admin, { method: "POST", body: { kek: "kek-1" } });
  expect(answer.body).toEqual(RETIRED);
  expect((await call(`${vault.url}/v1/status`, admin)).body.retiring).toBeNull();
  vault = await vault.restart();
  expect((await vault.verifyAudit()).intact).toBe(true);
  await makeKey("acc-1");
  await vault.vault.token.rotate();
  await vault.vault.token.health();
});
