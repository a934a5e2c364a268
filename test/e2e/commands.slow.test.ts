import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";
import { type Environment, roles } from "../support/setting_roles.ts";
import { vaultFiles } from "../support/vault_files.ts";
import { wrongEnvironment } from "../support/wrong_settings.ts";

const ROOT = new URL("../../", import.meta.url);
const pathOf = (name: string) => fileURLToPath(new URL(name, ROOT));
const [DEPUTIZE, KEYVAULT, PLUGIN] = ["src/main.ts", "keyvault/main.ts", "src/plugin/main.ts"];
/** Longer than any of these commands takes. A command that hangs is killed, and has no status. */
const HANGS_MS = 60_000;

type Ended = { status: number | null; out: string; err: string };

/** Runs a real command with exactly this environment. With `reader: "gone"`, nobody reads its output. */
async function run(
  [program = "", ...args]: readonly string[],
  { env = {}, reader }: { env?: Environment; reader?: "gone" } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [pathOf(program), ...args], {
    env: { PATH: process.env.PATH ?? "", HOME: folder, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  if (reader === "gone") child.stdout.destroy();
  const ended: Ended = { status: null, out: "", err: "" };
  child.stdout.on("data", (chunk) => {
    ended.out += chunk;
  });
  child.stderr.on("data", (chunk) => {
    ended.err += chunk;
  });
  const late = setTimeout(() => child.kill("SIGKILL"), HANGS_MS);
  const [status] = await once(child, "close");
  clearTimeout(late);
  return { ...ended, status: status as number | null };
}

let folder: string;
let file: string;
let database: TestDatabase;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-commands-"));
  file = join(folder, "file");
  await writeFile(file, "not a certificate");
  database = await migratedDatabase();
});
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true });
});

const PROGRAMS = [
  ["deputize", [DEPUTIZE]],
  ["npm start", [DEPUTIZE, "dev"]],
  ["keyvault", [KEYVAULT]],
  ["keyvault keys", [KEYVAULT, "keys"]],
  ["kubectl deputize", [PLUGIN]],
] as const;

describe("all commands behave alike", () => {
  test.each(PROGRAMS)("%s prints its version and its help with status 0", async (_, words) => {
    const { version } = JSON.parse(await readFile(pathOf("package.json"), "utf8")) as { version: string };
    expect(await run([...words, "--version"])).toEqual({ status: 0, out: `${version}\n`, err: "" });
    const help = await run([...words, "--help"]);
    expect(help).toMatchObject({ status: 0, err: "", out: expect.stringMatching(/./) });
  });

  test.each(PROGRAMS)("%s refuses a wrong option with status 2 and without output", async (_, words) => {
    const wrong = await run([...words, "--strange"]);
    expect(wrong).toMatchObject({ status: 2, out: "" });
    expect(wrong.err).toMatch(/strange/);
    expect(wrong.err).not.toMatch(/^ {4}at /m);
  });

  test.each([
    [DEPUTIZE, "credits", "grant", "--account", "a@b.example", "--amount", "abc", "--reason", "paid"],
    [DEPUTIZE, "credits", "list", "--account", "nobody"],
    [DEPUTIZE, "history", "archive", "--month", "2026-13", "--to", "."],
    [DEPUTIZE, "events", "dead-letters", "show", "x"],
    [DEPUTIZE, "events", "replay", "--from", "monday", "--to", "2026-11-24T09:30:00Z"],
    [DEPUTIZE, "operator", "--ended-ttl", "abc"],
    [DEPUTIZE, "doctor", "--egress", "none", "nobody"],
    [DEPUTIZE, "dev", "--port", "abc"],
    [DEPUTIZE, "tour", "--timeout", "abc"],
    [KEYVAULT, "status", "--url", "http://127.0.0.1"],
    [KEYVAULT, "keys", "list", "--tenant", "a b"],
    [PLUGIN, "approve", "x", "--timeout", "abc"],
  ])("a wrong value exits with status 2 and without output: %j %j %j", async (...words) => {
    const { status, out, err } = await run(words, { env: { DATABASE_URL: database.url } });
    expect({ status, out }).toEqual({ status: 2, out: "" });
    expect(err).toMatch(/./);
    expect(err).not.toMatch(/^ {4}at /m);
  });

  test.each([[[DEPUTIZE]], [[DEPUTIZE, "events"]], [[KEYVAULT, "audit"]], [[PLUGIN]]])(
    "%s without a command prints its help to standard error with status 2",
    async (words) => {
      expect(await run(words)).toMatchObject({
        status: 2,
        out: "",
        err: expect.stringMatching(/--help|help/),
      });
    },
  );

  test("a command whose reader has gone exits silently with status 141", async () => {
    const env = { DATABASE_URL: database.url };
    const quiet = { status: 141, out: "", err: "" };
    expect(await run([DEPUTIZE, "reconcile"], { env, reader: "gone" })).toEqual(quiet);
    expect(await run([DEPUTIZE, "events", "status"], { env, reader: "gone" })).toEqual(quiet);
    expect(await run([PLUGIN, "--help"], { reader: "gone" })).toEqual(quiet);
    for (const program of [DEPUTIZE, KEYVAULT]) {
      const help = await run([program, "--help"], { reader: "gone" });
      expect([0, 141]).toContain(help.status);
      expect(help.err).toBe("");
    }
  });

  test("a command without a database exits with status 3", async () => {
    const env = { DATABASE_URL: "postgres://nobody@127.0.0.1:1/none", MIGRATE_WAIT_SECONDS: "0" };
    for (const words of [
      ["migrate"],
      ["reconcile"],
      ["events", "status"],
      ["credits", "show", "--account", "a@b.example"],
    ]) {
      expect((await run([DEPUTIZE, ...words], { env })).status, words.join(" ")).toBe(3);
    }
    const vault = { KEYVAULT_DATA_DIR: folder, KEYVAULT_DATABASE_URL: env.DATABASE_URL };
    expect((await run([KEYVAULT, "migrate"], { env: vault })).status).toBe(3);
  });
});

const ACCOUNT = ["--account", "ada@example.test"];
/** Each process that reads settings: its role in the tables of settings, and its command line. */
const PROCESSES: [role: string, words: string[]][] = [
  ["api", [DEPUTIZE, "api"]],
  ["worker", [DEPUTIZE, "worker"]],
  ["operator", [DEPUTIZE, "operator"]],
  ["migrate", [DEPUTIZE, "migrate"]],
  ["reconcile", [DEPUTIZE, "reconcile"]],
  ["credits", [DEPUTIZE, "credits", "show", ...ACCOUNT]],
  ["history", [DEPUTIZE, "history", "archive", "--month", "2026-01", "--to", "."]],
  ["events", [DEPUTIZE, "events", "status"]],
  ["vault", [KEYVAULT, "serve"]],
  ["vault", [KEYVAULT, "init"]],
  ["vault", [KEYVAULT, "audit", "verify"]],
];

test.each(PROCESSES)(
  "each wrong setting of the role %s is in the list of the process %j",
  async (role, words) => {
    const about = roles[role] as (typeof roles)[string];
    const env = { ...wrongEnvironment(about, { file, folder }), DEPUTIZE_NONE: "x", KEYVAULT_NONE: "x" };
    // The two ways to give a token exclude each other.
    const { OPERATOR_TOKEN_FILE: _, ...others } = env as Environment;
    const { status, out, err } = await run(words, { env: others });
    expect({ status, out }).toEqual({ status: 78, out: "" });
    for (const name of Object.keys(others)) {
      const ofCluster = ["KUBECONFIG", "KUBE_CONTEXT", "OPERATOR_NAMESPACE", "CLUSTER_ID"].includes(name);
      const ofOthers = name === (role === "vault" ? "DEPUTIZE_NONE" : "KEYVAULT_NONE");
      const isReported = new RegExp(`^ *(keyvault: )?${name}(\\.\\d+)?: `, "m").test(err);
      expect(isReported, name).toBe(!ofCluster && !ofOthers);
    }
  },
);

test("the operator in a cluster lists each wrong setting", async () => {
  const wrong = wrongEnvironment(roles.operator as (typeof roles)[string], { file, folder });
  const { MANIFESTS_DIR, STATUS_DIR, SECRETS_DIR, OPERATOR_TOKEN_FILE, ...env } = wrong;
  const { status, err } = await run([DEPUTIZE, "operator"], { env });
  expect(status).toBe(78);
  for (const name of Object.keys(env)) expect(err).toMatch(new RegExp(`^ *${name}: `, "m"));
});

describe("a port in use", () => {
  let port: string;
  const server = createServer();
  beforeAll(async () => {
    await once(server.listen(0, "127.0.0.1"), "listening");
    port = String((server.address() as AddressInfo).port);
  });
  afterAll(() => void server.close());

  const sealed = () => ({
    DATABASE_URL: database.url,
    SEALING_KEY: `${"A".repeat(43)}=`,
    LOG_LEVEL: "silent",
  });
  const api = async () => ({
    ...sealed(),
    ...(await vaultFiles()),
    ...{ VAULT_URL: "https://127.0.0.1:1", BASE_URL: "http://127.0.0.1", DEVELOPMENT: "true" },
    ...{ PORT: "0", OPERATOR_PORT: "0", OPERATOR_TOKEN: "t".repeat(32) },
  });
  const operator = () => ({
    ...{ API_URL: "http://127.0.0.1:1", OPERATOR_API_URL: "http://127.0.0.1:1", LOG_LEVEL: "silent" },
    ...{ CONSOLE_URL: "http://127.0.0.1:1", OPERATOR_TOKEN: "t".repeat(32), MANIFESTS_DIR: folder },
    ...{ STATUS_DIR: join(folder, "status"), SECRETS_DIR: join(folder, "secrets") },
  });

  test.each<[name: string, words: string[], settings: () => Environment | Promise<Environment>]>([
    ["PORT", [DEPUTIZE, "api"], api],
    ["OPERATOR_PORT", [DEPUTIZE, "api"], api],
    ["HEALTH_PORT", [DEPUTIZE, "api"], api],
    ["HEALTH_PORT", [DEPUTIZE, "worker"], sealed],
    ["HEALTH_PORT", [DEPUTIZE, "operator"], operator],
  ])("ends with status 78 and one line that names %s: %j", async (name, words, settings) => {
    const { status, err } = await run(words, { env: { ...(await settings()), [name]: port } });
    const line = `${name}: port ${port} of 127.0.0.1 is in use. Stop the program that uses it, or choose another port\n`;
    expect({ status, err }).toEqual({ status: 78, err: line });
  });

  test("ends `npm start` with status 78 and two lines", async () => {
    const words = [DEPUTIZE, "dev", "--data", join(folder, "data"), "--port", port];
    const { status, err } = await run(words);
    expect({ status, err }).toEqual({
      status: 78,
      err: `Port ${port} on 127.0.0.1 is in use by another program\nStop that program, or choose another port with --port\n`,
    });
  });
});
