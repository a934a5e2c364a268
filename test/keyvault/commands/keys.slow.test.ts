import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { describeList } from "../../../keyvault/commands/keys.ts";
import type { ListedKey } from "../../../keyvault/keys/view.ts";
import { issueIdentity, startVault, type TestVault } from "../fixture.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

let vault: TestVault;
let key: string;

beforeAll(async () => {
  vault = await startVault();
  const made = { tenant: "acc-1", purpose: "agent", label: "agent", ceiling: ["data:read"] } as const;
  key = (await vault.makeKey({ ...made, ceiling: ["data:read"] })).key_id;
  const bob = await issueIdentity(vault.home, { kind: "client", role: "admin", name: "bob" });
  await writeFile(join(vault.home.dir, "bob.pem"), bob.cert);
  await writeFile(join(vault.home.dir, "bob.key"), bob.key);
});
afterAll(() => vault.close());

const run = (args: string[], asBob = false) => runVault(["keys", ...args], asBob);

async function runVault(args: string[], asBob: boolean): Promise<{ code: number; out: string; err: string }> {
  const own = asBob
    ? ["--cert", join(vault.home.dir, "bob.pem"), "--key", join(vault.home.dir, "bob.key")]
    : [];
  const child = spawn(process.execPath, [MAIN, ...args, "--url", vault.url, ...own], {
    env: vault.home.environment,
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (text: Buffer) => {
    out += text.toString();
  });
  child.stderr.on("data", (text: Buffer) => {
    err += text.toString();
  });
  const [code] = (await once(child, "close")) as [number];
  return { code, out, err };
}

test("two admins take a key through its life by the command line", { timeout: 120_000 }, async () => {
  expect((await run(["show", key])).out).toMatch(/state +active\n/);
  expect((await run(["disable", key])).out).toContain("is disabled");
  expect((await run(["enable", key])).out).toContain("another admin must run the same command");
  expect(await run(["enable", key])).toMatchObject({
    code: 1,
    err: expect.stringContaining("another admin"),
  });
  expect((await run(["list"])).out).toMatch(/disabled\*[\s\S]*waits for a second admin/);
  expect(JSON.parse((await run(["enable", key, "--json"], true)).out)).toMatchObject({ state: "active" });
  expect((await run(["destroy", key, "--days", "6"])).code).toBe(1);
  await run(["destroy", key, "--days", "7"]);
  expect((await run(["show", key])).out).toMatch(/waits +admin asked to destroy it after 7 days, 20/);
  expect((await run(["destroy", key, "--days", "7"], true)).out).toMatch(
    /is destroying; its seeds are erased 20/,
  );
  expect((await run(["destroy", key, "--cancel"])).out).toContain("is disabled.");
});

test("two admins destroy a tenant by the command line, and one takes it back", {
  timeout: 60_000,
}, async () => {
  const tenants = (args: string[], asBob = false) => runVault(["tenants", "destroy", ...args], asBob);
  await vault.makeKey({ tenant: "acc-2", purpose: "agent", label: "agent", ceiling: ["data:read"] });
  expect((await tenants(["acc-2", "--days", "8"])).out).toMatch(/acc-2 is still active: another admin must/);
  expect(await tenants(["acc-2", "--days", "8"])).toMatchObject({ code: 1, out: "" });
  expect((await tenants(["acc-2", "--days", "8"], true)).out).toMatch(
    /^Tenant acc-2 is destroying; its data key is erased 20\S+\.\n$/,
  );
  expect(JSON.parse((await tenants(["acc-2", "--cancel", "--json"])).out)).toMatchObject({ state: "active" });
  expect(await tenants(["acc-3"])).toMatchObject({
    code: 1,
    err: expect.stringMatching(/^keyvault: .*no such/),
  });
});

test("a damaged key is named, and the exit code says so", { timeout: 60_000 }, async () => {
  await vault.home.sql("update keys set ceiling = null where key_id = $1", [key]);
  const listed = await run(["list", "--tenant", "acc-1"]);
  expect(listed).toMatchObject({ code: 2, out: expect.stringContaining("DAMAGED") });
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

test("a key that ends with its tenant is not called active; one that ended before stays so", () => {
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

test("tables fit 80 and 120 columns, whatever tenants and labels are called", () => {
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
