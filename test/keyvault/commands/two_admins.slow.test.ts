import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeList } from "../../../keyvault/commands/keys.ts";
import { migrate } from "../../../keyvault/db/migrate.ts";
import type { ListedKey } from "../../../keyvault/keys/view.ts";
import { earlierRows, machineOfLevel } from "../backup/earlier_support.ts";
import { cli, type Ended, runCommand } from "../command_line.ts";
import { issueIdentity, SILENT, startVault, type TestVault } from "../fixture.ts";

let vault: TestVault;
let key: string;

beforeAll(async () => {
  vault = await startVault();
  key = (await vault.makeAgent("acc-1")).key_id;
  await writeBob(vault);
});
afterAll(() => vault.close());

async function writeBob({ home }: TestVault): Promise<void> {
  const bob = await issueIdentity(home, { kind: "client", role: "admin", name: "bob" });
  await writeFile(join(home.dir, "bob.pem"), bob.cert);
  await writeFile(join(home.dir, "bob.key"), bob.key);
}

const ask = ({ home, url }: TestVault, args: string[], asBob = false): Promise<Ended> =>
  runCommand(
    [...args, "--url", url, ...(asBob ? ["--cert", join(home.dir, "bob.pem")] : [])],
    home.environment,
  );
const run = (args: string[], asBob = false) => ask(vault, ["keys", ...args], asBob);

test("two admins disable, enable and destroy a key with the command line", { timeout: 120_000 }, async () => {
  expect((await run(["show", key])).stdout).toMatch(/state +active\n/);
  expect((await run(["disable", key])).stdout).toContain("is disabled");
  expect((await run(["enable", key])).stdout).toContain("another admin must run the same command");
  expect(await run(["enable", key])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("another admin"),
  });
  expect((await run(["list"])).stdout).toMatch(/disabled\*[\s\S]*waits for a second admin/);
  expect(JSON.parse((await run(["enable", key, "--json"], true)).stdout)).toMatchObject({ state: "active" });
  expect((await run(["destroy", key, "--days", "6"])).code).toBe(2);
  await run(["destroy", key, "--days", "7"]);
  expect((await run(["show", key])).stdout).toMatch(/waits +admin asked to destroy it after 7 days, 20/);
  expect((await run(["destroy", key, "--days", "7"], true)).stdout).toMatch(
    /is destroying; its seeds are erased 20/,
  );
  expect((await run(["destroy", key, "--cancel"])).stdout).toContain("is disabled.");
});

test("two admins destroy a tenant with the command line, and one admin cancels the destruction", {
  timeout: 60_000,
}, async () => {
  const tenants = (args: string[], asBob = false) => ask(vault, ["tenants", "destroy", ...args], asBob);
  await vault.makeAgent("acc-2");
  expect((await tenants(["acc-2", "--days", "8"])).stdout).toMatch(
    /acc-2 is still active: another admin must/,
  );
  expect(await tenants(["acc-2", "--days", "8"])).toMatchObject({ code: 1, stdout: "" });
  expect((await tenants(["acc-2", "--days", "8"], true)).stdout).toMatch(
    /^Tenant acc-2 is destroying; its data key is erased 20\S+\.\n$/,
  );
  expect(JSON.parse((await tenants(["acc-2", "--cancel", "--json"])).stdout)).toMatchObject({
    state: "active",
  });
  expect(await tenants(["acc-3"])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^keyvault: .*no such/),
  });
});

test("two admins adopt an earlier version's rows with the command line and see the same fingerprint", {
  timeout: 120_000,
}, async () => {
  const home = await machineOfLevel(vault, await earlierRows(vault, 2), 2);
  onTestFinished(() => home.remove());
  await migrate(home.config, SILENT);
  const earlier = await startVault(home, vault.clock.at);
  onTestFinished(() => earlier.stop());
  await writeBob(earlier);
  const list = async () => (await ask(earlier, ["keys", "list"])).stdout;
  const verify = async () => (await cli(home, "audit", "verify")).stdout;
  expect(await list()).toContain("DAMAGED");
  const waiting =
    /^All \d+ records are intact[\s\S]*\n\d+ rows that an earlier version stored without codes wait for/;
  expect(await verify()).toMatch(waiting);
  const asked = (await ask(earlier, ["adopt"])).stdout;
  const [, what, fingerprint] =
    /^(\d+ keys and \d+ tenants) wait: another admin must run the same command.*\n(fingerprint +[0-9a-f]{64}\n)/.exec(
      asked,
    ) ?? [];
  expect(what).toBeDefined();
  expect((await ask(earlier, ["adopt"], true)).stdout).toBe(`Adopted ${what}.\n${fingerprint}`);
  expect(await list()).not.toContain("DAMAGED");
  expect(await verify()).not.toContain("wait");
  expect(await earlier.vault.store.find(key)).toMatchObject({ keyId: key });
});

test("keys list names a damaged key and exits with 2", { timeout: 60_000 }, async () => {
  await vault.home.sql("update keys set ceiling = null where key_id = $1", [key]);
  const listed = await run(["list", "--tenant", "acc-1"]);
  expect(listed).toMatchObject({ code: 1, stdout: expect.stringContaining("DAMAGED") });
});

const row = (tenant: string, label: string, state: ListedKey["state"]) =>
  ({
    key_id: "0123456789abcdef0123456789abcdef",
    tenant,
    label,
    state,
    tenant_state: "active",
    purpose: "account_root",
    created_at: "2026-11-21T10:00:00.000Z",
    pending: null,
    damaged: false,
  }) as unknown as ListedKey;

test("keys list shows a tenant's destruction for all its keys, except for keys destroyed earlier", () => {
  const ending = { tenant_state: "destroying" } as const;
  const lines = describeList(
    [
      { ...row("acc-1", "root", "active"), ...ending },
      { ...row("acc-1", "old", "destroyed"), ...ending },
      row("acc-2", "root", "active"),
    ],
    80,
  ).split("\n");
  expect(lines[1]).toContain("destroying^");
  expect(lines[2]).toContain("destroyed ");
  expect(lines[3]).toContain("active ");
  expect(lines[4]).toBe("^ with its tenant");
});

test("keys list fits 80 and 120 columns with any tenant and label", () => {
  const keys = [
    row("a".repeat(128), "Zoë’s agent ".repeat(20), "destroying"),
    row("acc-2", "root", "active"),
  ];
  for (const columns of [80, 92, 120]) {
    const lines = describeList(keys, columns).trimEnd().split("\n");
    expect(lines).toHaveLength(3);
    for (const line of lines) expect([...line].length).toBeLessThanOrEqual(columns);
    expect(lines[1]).toContain("…");
    expect(lines[1]).toContain("0123456789abcdef0123456789abcdef");
  }
});
