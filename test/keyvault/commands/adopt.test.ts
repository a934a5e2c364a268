import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { migrate } from "../../../keyvault/db/migrate.ts";
import { earlierRows, machineOfLevel } from "../backup/earlier_support.ts";
import { issueIdentity, SILENT, startVault } from "../fixture.ts";

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

test("two admins adopt an earlier version's rows by the command line, and see the same fingerprint", {
  timeout: 120_000,
}, async () => {
  const newer = await startVault();
  const { key_id } = await newer.makeKey({ tenant: "acc-1", purpose: "agent", label: "key", ceiling: [] });
  const home = await machineOfLevel(newer, await earlierRows(newer, 2), 2);
  await newer.close();
  await migrate(home.config, SILENT);
  const vault = await startVault(home);
  const bob = await issueIdentity(home, { kind: "client", role: "admin", name: "bob" });
  await writeFile(join(home.dir, "bob.pem"), bob.cert);
  await writeFile(join(home.dir, "bob.key"), bob.key);
  const run = async (...args: string[]) =>
    (
      await promisify(execFile)(process.execPath, [MAIN, ...args, "--url", vault.url], {
        env: home.environment,
      }).catch((error: { stdout: string }) => error)
    ).stdout;
  const verify = async () =>
    (await promisify(execFile)(process.execPath, [MAIN, "audit", "verify"], { env: home.environment }))
      .stdout;
  try {
    expect(await run("keys", "list")).toContain("DAMAGED");
    expect(await verify()).toMatch(/records hold[\s\S]*\n4 rows of a version without codes wait for/);
    const asked = await run("adopt");
    expect(asked).toMatch(/^2 keys and 2 tenants wait: another admin must run the same command/);
    const fingerprint = /fingerprint +[0-9a-f]{64}\n/.exec(asked)?.[0] ?? "none";
    expect(await run("adopt", "--cert", join(home.dir, "bob.pem"))).toBe(
      `Adopted 2 keys and 2 tenants.\n${fingerprint}`,
    );
    expect(await run("keys", "list")).not.toContain("DAMAGED");
    expect(await verify()).not.toContain("wait");
    expect(await vault.vault.store.find(key_id)).toMatchObject({ state: "active" });
  } finally {
    await vault.close();
  }
});
