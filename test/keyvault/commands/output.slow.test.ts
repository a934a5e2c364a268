import { spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { cli } from "../command_line.ts";
import { createHome, type VaultHome } from "../fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

const MAIN = fileURLToPath(new URL("../../../keyvault/main.ts", import.meta.url));

let home: VaultHome;

beforeAll(async () => {
  home = await createHome();
});
afterAll(() => home.remove());

const run = async (...args: string[]) => (await cli(home, ...args)).stdout;
const linesOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);

test("init prints each step as JSON with --json, otherwise as text that names the files to back up", async () => {
  await rm(join(home.config.tlsDir, "admin.pem"));
  await rm(join(home.config.tlsDir, "admin.key"));
  expect(linesOf(await run("init", "--json"))).toEqual([
    { step: "database", created: [] },
    { step: "token", created: [] },
    { step: "service key", created: [] },
    { step: "certificates", created: ["admin"] },
  ]);
  await rm(join(home.config.tlsDir, "admin.pem"));
  await rm(join(home.config.tlsDir, "admin.key"));
  expect(await run("init")).toBe(
    `database       already there
token          already there
service key    already there
certificates   made admin

The vault in ${home.config.dataDir} is ready.
Back up its token and its PIN file, apart from each other.
`,
  );
});

test("migrate prints the migrations that it applied", async () => {
  expect(await run("migrate")).toBe("The tables are up to date.\n");
  expect(linesOf(await run("migrate", "--json"))).toEqual([{ applied: [] }]);
});

test("cert issue creates a certificate valid for 397 days by default, and prints its files and expiry", async () => {
  const issued = JSON.parse(await run("cert", "issue", "--role", "admin", "--name", "ada", "--json"));
  const { validFromDate, validToDate } = new X509Certificate(await readFile(issued.certificate));
  expect(validToDate.getTime() - validFromDate.getTime()).toBe(397 * 86_400_000 + 300_000);
  const stem = join(home.config.tlsDir, "admin-eve");
  const text = await run("cert", "issue", "--role", "admin", "--name", "eve", "--days", "30");
  const { validTo, serialNumber } = new X509Certificate(await readFile(`${stem}.pem`));
  expect(text).toBe(
    `certificate  ${stem}.pem
key          ${stem}.key
serial       ${serialNumber.toLowerCase().replace(/^0+/, "")}
not after    ${new Date(validTo).toISOString().slice(0, 10)}
`,
  );
});

test("backup key never overwrites a recovery key, and makes the private half readable only by its owner", async () => {
  const [file, other] = [join(home.dir, "recovery.key"), join(home.dir, "other.key")];
  const { recoveryKeyFile } = home.config;
  expect(JSON.parse(await run("backup", "key", file, "--json"))).toEqual({
    public: recoveryKeyFile,
    private: file,
  });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await stat(recoveryKeyFile)).mode & 0o777).toBe(0o644);
  const kept = await readFile(recoveryKeyFile, "utf8");
  await expect(run("backup", "key", other)).rejects.toThrow(
    `${recoveryKeyFile} exists already: backups made so far need it, so it is not overwritten`,
  );
  await expect(stat(other)).rejects.toMatchObject({ code: "ENOENT" });
  expect(await readFile(recoveryKeyFile, "utf8")).toBe(kept);
  await rm(recoveryKeyFile);
  await expect(run("backup", "key", file)).rejects.toThrow(
    `${file} exists already: backups made so far need it, so it is not overwritten`,
  );
});

/** Stops `serve` with the signal when it listens. Returns its log. */
async function served(signal: "SIGINT" | "SIGHUP" | "SIGTERM"): Promise<Record<string, unknown>[]> {
  const child = spawn(process.execPath, [MAIN, "serve"], {
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const before = text;
    text += chunk.toString();
    const isListening = (said: string) => /"event":"listening".*\n/.test(said);
    if (isListening(text) && !isListening(before)) child.kill(signal);
  });
  const [code] = (await once(child, "close")) as [number];
  expect(code, signal).toBe(0);
  return linesOf(text) as Record<string, unknown>[];
}

test.each(["SIGINT", "SIGHUP", "SIGTERM"] as const)(
  "serve stops in an orderly way after %s and logs its address, its token and the reason",
  async (signal) => {
    const lines = await served(signal);
    expect(lines.find(({ event }) => event === "listening")).toMatchObject({
      host: "127.0.0.1",
      port: expect.any(Number),
      health_port: expect.any(Number),
      token: { model: "SoftHSM v2", keks: ["kek-1"] },
    });
    expect(lines.at(-1)).toMatchObject({ event: "stopped" });
    expect(lines.find(({ event }) => event === "stopping")).toMatchObject({ reason: signal });
  },
);

test("serve logs that the vault starts sealed, and since when", async () => {
  const pin = await readFile(home.config.token.pinFile);
  await rm(home.config.token.pinFile);
  const lines = await served("SIGTERM");
  await writeFile(home.config.token.pinFile, pin, { mode: 0o600 });
  const listening = lines.find(({ event }) => event === "listening");
  expect(listening).toMatchObject({ sealed: { reason: "no_pin_file", since: expect.any(String) } });
  expect(listening).not.toHaveProperty("token");
});
