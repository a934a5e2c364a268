import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import stringWidth from "string-width";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unixSeconds } from "../../../keyvault/clock.ts";
import { debianProgram } from "../../support/debian.ts";
import { cli, runCommand } from "../command_line.ts";
import { ADMIN, createHome, startVault, type TestVault } from "../fixture.ts";
import { call } from "../http/caller_support.ts";
import { storeTenants } from "../kek/tenants_support.ts";

/* Provides a real terminal of a given width. KEYVAULT_CAPTURES names a folder for the tests' output. */
const SCRIPT = await debianProgram("/usr/bin/script", "bsdutils");
const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));
const mayRun = process.platform === "linux" && SCRIPT !== undefined;

let vault: TestVault;

beforeAll(async () => {
  vault = await startVault();
  const names = [
    ["acc-1", "Mail agent"],
    [
      "0b0e2d8a-6d52-4e0e-9d1b-0c4b8c1f2a33",
      "An agent whose label goes on and on, further than any column does, and then some",
    ],
    [
      "tenant-with-a-name-of-one-hundred-and-twenty-eight-characters".padEnd(128, "x"),
      "Zoë’s 👩‍💻 エージェント、名前がとても長いので切られます",
    ],
  ] as const;
  for (const [tenant, label] of names) {
    await vault.makeKey({ tenant, purpose: "account_root", label: "account root", ceiling: ["data:*"] });
    const { key_id } = await vault.makeKey({ tenant, purpose: "agent", label, ceiling: ["data:read"] });
    const identity = vault.api;
    await call(`${vault.url}/v1/keys/${key_id}/sign/challenge`, identity, {
      method: "POST",
      body: {
        tenant,
        challenge: Buffer.alloc(32).toString("base64"),
        challenge_at: unixSeconds(vault.clock.now()),
      },
    });
    await vault.vault.journal.record({
      caller: ADMIN,
      keyId: key_id,
      statement: "tenant_destroy_cancel",
      outcome: "idempotency_conflict",
    });
  }
}, 120_000);
afterAll(() => vault?.close());

/** Returns the complete output, including escapes, and the exit code. */
async function onTerminal(
  columns: number,
  args: string,
  { environment } = vault.home,
): Promise<{ shown: string; code: number }> {
  const command = `stty cols ${columns} rows 40; exec ${process.execPath} ${MAIN} ${args}`;
  const child = spawn(SCRIPT ?? "", ["-qec", command, "/dev/null"], {
    env: { ...environment, PATH: "/usr/bin:/bin", TERM: "xterm-256color" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let shown = "";
  child.stdout.on("data", (chunk: Buffer) => {
    shown += chunk.toString();
  });
  const [code] = (await once(child, "close")) as [number];
  const folder = process.env.KEYVAULT_CAPTURES;
  if (folder) {
    writeFileSync(`${folder}/${args.split(" --url")[0]?.replaceAll(/\W+/g, "_")}_${columns}.txt`, shown);
  }
  return { shown, code };
}

/** A carriage return starts a new line here, because it overwrites the current line. */
function linesOf(shown: string): string[] {
  return stripVTControlCharacters(shown.replaceAll("\r\n", "\n"))
    .split("\n")
    .flatMap((line) => line.split("\r"));
}

const widthOf = (line: string) => stringWidth(line);
const remote = (command: string) => `${command} --url ${vault.url}`;

describe.skipIf(!mayRun)("the command line on a terminal", { timeout: 120_000 }, () => {
  test.each([80, 120])("fits tables into %i columns and prints a line for every row", async (columns) => {
    const local = ["audit verify"];
    for (const command of [...["status", "keys list", "audit tail -n 30"].map(remote), ...local]) {
      const { shown, code } = await onTerminal(columns, command);
      expect(code, shown).toBe(0);
      for (const line of linesOf(shown)) expect(widthOf(line), line).toBeLessThanOrEqual(columns);
    }
    const { shown } = await onTerminal(columns, remote("keys list"));
    const ids = linesOf(shown).filter((line) => /^[0-9a-f]{32} /.test(line));
    expect(ids).toHaveLength(7);
    for (const line of ids) expect(line).toMatch(/ (account_root|agent|service) +active/);
  });

  test("fits the output of the first init, and of an init without a PIN file, into 80 columns", async () => {
    const home = await createHome({ made: "empty" });
    try {
      for (const expected of [/made 0001_keys/, /the PIN file is elsewhere/]) {
        const { shown, code } = await onTerminal(80, "init", home);
        expect(code, shown).toBe(0);
        expect(shown).toMatch(expected);
        const lines = linesOf(shown).filter((line) => !line.includes(home.dir));
        for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(80);
        await rm(home.config.token.pinFile, { force: true });
      }
    } finally {
      await home.remove();
    }
  });

  test("removes the progress of a verification before it prints the result", async () => {
    const { shown } = await onTerminal(80, "audit verify");
    const last = shown.replaceAll("\r\n", "\n").split("\r").at(-1) ?? "";
    expect(stripVTControlCharacters(last)).toMatch(
      /^All \d+ records are intact\.\naudit head\n {2}\d+:[0-9a-f]{64}\n$/,
    );
  });

  test.each([80, 120])(
    "shows a rewrapping in %i columns as one progress bar on one line",
    async (columns) => {
      await storeTenants(vault.home, vault.vault.token, 0);
      await vault.home.sql("delete from tenants where tenant like 'bulk-%'");
      await storeTenants(vault.home, vault.vault.token, 3_000);
      expect((await onTerminal(columns, remote("kek rotate"))).code).toBe(0);
      const { shown, code } = await onTerminal(columns, remote("kek rewrap"));
      expect(code, shown).toBe(0);
      const lines = linesOf(shown);
      for (const line of lines) expect(widthOf(line), line).toBeLessThanOrEqual(columns);
      const bars = lines.filter((line) => line.startsWith("["));
      expect(bars.length).toBeGreaterThan(1);
      expect(bars.at(-1)).toContain("100 %");
      expect(
        shown
          .replaceAll("\r\n", "\n")
          .split("\n")
          .filter((line) => line.includes("[")).length,
      ).toBe(1);
      expect(lines.join("\n")).toMatch(/\d+ data keys rewrapped under kek-\d, 0 remaining\./);
    },
  );
});

test.each([
  "",
  "serve",
  "init",
  "status",
  "keys",
  "keys list",
  "keys destroy",
  "tenants",
  "tenants destroy",
  "kek",
  "kek rewrap",
  "kek retire",
  "audit",
  "audit tail",
  "audit verify",
  "backup",
  "backup restore",
  "cert issue",
  "cert revoke",
  "seal",
  "unseal",
  "migrate",
])("keyvault %s --help fits 80 columns", async (command) => {
  const { stdout, code } = await runCommand([...command.split(" ").filter(Boolean), "--help"], {});
  expect(code).toBe(0);
  for (const line of linesOf(stdout)) expect(widthOf(line), line).toBeLessThanOrEqual(80);
});

test("the command line without a terminal prints no escapes and no bar, and only JSON with --json", async () => {
  const environment = { ...vault.home.environment, FORCE_COLOR: "1", TERM: "xterm-256color" };
  const run = (...args: string[]) => cli({ environment }, ...args, "--url", vault.url);
  for (const command of ["status", "keys list", "audit tail", "kek rewrap"]) {
    const { stdout, stderr } = await run(...command.split(" "));
    expect(`${stdout}${stderr}`, command).not.toContain("\u001b");
    expect(stderr, command).toBe("");
    const json = await run(...command.split(" "), "--json");
    for (const line of json.stdout.trim().split("\n")) expect(() => JSON.parse(line), command).not.toThrow();
    expect(json.stderr, command).toBe("");
  }
}, 60_000);
