import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { migrate, migrations } from "../../src/db/migrate.ts";
import { type TestDatabase, testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { startTcpProxy, type TcpProxy } from "../support/surroundings/tcp_proxy.ts";
import { type VaultFiles, vaultFiles } from "../support/vault_files.ts";

const next = (n: number) => ({ name: `900${n}_next`, sql: `create table next_${n} (id int)` });
let database: TestDatabase;
let folder: string;
let files: VaultFiles;
let proxy: TcpProxy | undefined;
const roles: RoleProcess[] = [];

beforeEach(async () => {
  database = await testDatabase();
  folder = await mkdtemp("/var/tmp/deputize-roles-");
  await chmod(folder, 0o755);
  // The vault is unavailable in these tests. The processes only need certificate files.
  files = await vaultFiles();
});

afterEach(async () => {
  await killRoles(roles);
  await proxy?.stop();
  proxy = undefined;
  await database.drop();
  await rm(folder, { recursive: true });
});

function environment(url = database.url): Record<string, string> {
  return {
    DATABASE_URL: url,
    SEALING_KEY: randomBytes(32).toString("base64"),
    DEVELOPMENT: "true",
    PORT: "0",
    OPERATOR_PORT: "0",
    BASE_URL: "http://127.0.0.1",
    VAULT_URL: "https://127.0.0.1:1",
    ...files,
  };
}

function start(role: string, more: Record<string, string> = {}, how = {}): RoleProcess {
  const started = startRole(role, { ...environment(), ...more }, how);
  roles.push(started);
  return started;
}

const waiting = ({ log }: RoleProcess) =>
  log.map(({ msg }) => String(msg)).filter((line) => line.startsWith("waiting: "));

test("an API that starts before its database is running waits, can be stopped, and recovers from each outage", async () => {
  await migrate(database.url);
  proxy = await startTcpProxy(database.url);
  proxy.cut();
  const [role, other] = [
    start("api", { DATABASE_URL: proxy.url }),
    start("api", { DATABASE_URL: proxy.url }),
  ];
  await until("they wait", () => waiting(role).length > 0 && waiting(other).length > 0, 60_000);
  expect([await role.health("/livez"), await role.health("/readyz")]).toEqual([200, 503]);
  expect(await other.end()).toBe(0);
  proxy.mend();
  await heals(role, proxy);
});

test("a worker that starts before the database schema exists becomes ready without a restart, and recovers from each outage", async () => {
  proxy = await startTcpProxy(database.url);
  const [role, other] = [start("worker", { DATABASE_URL: proxy.url }), start("worker")];
  await until("they wait", () => waiting(role).length > 0 && waiting(other).length > 0, 60_000);
  expect([await role.health("/livez"), await role.health("/readyz")]).toEqual([200, 503]);
  expect(await start("migrate").exit).toBe(0);
  await other.ready();
  expect(await other.end()).toBe(0);
  await heals(role, proxy);
});

async function heals(role: RoleProcess, between: TcpProxy): Promise<void> {
  await role.ready();
  for (const away of [between.cut, between.stall]) {
    away();
    await until("it is not ready", async () => (await role.health("/readyz")) === 503, 30_000);
    expect(await role.health("/livez")).toBe(200);
    between.mend();
    await role.ready();
  }
}

test.each(["api", "migrate"])(
  "%s exits with status 78 and prints one sentence if the database schema is too new",
  async (name) => {
    await migrate(database.url, { migrations: [...migrations, next(1), next(2)] });
    const role = start(name);
    expect(await role.exit).toBe(78);
    expect(role.errors()).toMatch(/^The database has migrations .*: 9001_next, 9002_next\. .*\n$/);
  },
);

describe("the migrate role", () => {
  test.each([
    ["the database is available", 0, {}],
    [
      "the database cannot be reached in time",
      3,
      { DATABASE_URL: "postgres://127.0.0.1:1/none", MIGRATE_WAIT_SECONDS: "0" },
    ],
    ["the database does not exist", 78, { DATABASE_URL: "no_such" }],
    ["a setting is wrong", 78, { MIGRATE_WAIT_SECONDS: "soon" }],
  ])("if %s, exits with status %i", async (_, status, settings: Record<string, string>) => {
    const url = new URL(database.url);
    url.pathname = "/no_such_database";
    const refused = settings.DATABASE_URL === "no_such" ? { DATABASE_URL: url.href } : settings;
    expect(await start("migrate", { ...settings, ...refused }).exit).toBe(status);
  });
});

type Answered = { status: number; closes: boolean };

function call(port: number, agent: Agent): Promise<Answered> {
  return new Promise((resolve, reject) => {
    request({ port, host: "127.0.0.1", path: "/v1/service/scopes", agent }, (response) => {
      response
        .resume()
        .on("end", () =>
          resolve({ status: response.statusCode ?? 0, closes: response.headers.connection === "close" }),
        );
    })
      .on("error", reject)
      .end();
  });
}

describe("an API whose database vanishes silently", () => {
  test("answers 503 with Retry-After, and works when the database is back", async () => {
    await migrate(database.url);
    proxy = await startTcpProxy(database.url);
    const role = start("api", { DATABASE_URL: proxy.url });
    await role.ready();
    const port = Number(role.log.find(({ msg }) => msg === "api listens")?.port);
    const ask = () => fetch(`http://127.0.0.1:${port}/v1/registry/principals/${"0".repeat(32)}`);
    expect((await ask()).status).toBe(404);
    proxy.stall();
    const answers = await Promise.all(Array.from({ length: 24 }, ask));
    expect(new Set(answers.map(({ status, headers }) => `${status} ${headers.get("retry-after")}`))).toEqual(
      new Set(["503 1"]),
    );
    proxy.mend();
    await until("it works", async () => (await ask()).status === 404, 30_000);
  });
});

/**
 * Runs a program like a pod of the chart: as a different user, with only `/tmp` writable. If the tests do not
 * run as root, the user stays the same, and only the working directory is read-only.
 */
const asInPod =
  process.getuid?.() === 0
    ? [
        "unshare",
        "--mount",
        "sh",
        "-c",
        `mount --rbind / / && mount -o remount,ro,bind / && mount -t tmpfs -o mode=1777 tmpfs /tmp && cd / &&
         exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs "$@"`,
        "pod",
      ]
    : [];

describe("every role on a read-only file system, under an unprivileged user", () => {
  const how = { before: asInPod, cwd: "/" };
  const REFUSED = /EROFS|EACCES|EPERM|read-only/i;

  test("starts, listens on all addresses if HEALTH_HOST is 0.0.0.0, works and stops", async () => {
    const kubeconfig = join(folder, "kubeconfig");
    await writeFile(kubeconfig, KUBECONFIG);
    await chmod(kubeconfig, 0o644);
    const migrating = start("migrate", {}, how);
    expect([await migrating.exit, migrating.errors()]).toEqual([0, ""]);
    const all = { HEALTH_HOST: "0.0.0.0" };
    const running = [start("api", all, how), start("worker", all, how)];
    const operator = start("operator", { ...all, ...OPERATOR, KUBECONFIG: kubeconfig }, how);
    for (const role of running) await role.ready();
    await until("the operator lives", async () => (await operator.health("/livez")) === 200);
    expect(await operator.health("/readyz")).toBe(503);
    for (const role of [...running, operator]) {
      const port = role.log.find((line) => "health_port" in line)?.health_port;
      expect((await fetch(`http://127.0.0.2:${port}/metrics`)).status).toBe(200);
      expect(await role.end()).toBe(0);
      expect(role.errors()).toBe("");
      expect(role.log.filter((line) => REFUSED.test(JSON.stringify(line)))).toEqual([]);
    }
  });
});

const OPERATOR = {
  API_URL: "http://127.0.0.1:1",
  OPERATOR_API_URL: "http://127.0.0.1:1",
  CONSOLE_URL: "http://127.0.0.1:1",
  OPERATOR_TOKEN: "operator-token-of-the-tests-32-characters",
  OPERATOR_NAMESPACE: "deputize",
};

const KUBECONFIG = `apiVersion: v1
kind: Config
current-context: none
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none, namespace: deputize}}]
`;

describe("an API that receives SIGTERM", () => {
  test("becomes not ready, serves for DRAIN_SECONDS, and closes each connection after the next response", async () => {
    await migrate(database.url);
    const role = start("api", { DRAIN_SECONDS: "4" });
    await role.ready();
    const port = Number(role.log.find(({ msg }) => msg === "api listens")?.port);
    const kept = new Agent({ keepAlive: true, maxSockets: 1 });
    expect(await call(port, kept)).toEqual({ status: 200, closes: false });
    const ended = role.end();
    await until("it is not ready", async () => (await role.health("/readyz")) === 503);
    expect(await role.health("/livez")).toBe(200);
    expect(await call(port, kept)).toEqual({ status: 200, closes: true });
    expect(await call(port, new Agent())).toEqual({ status: 200, closes: true });
    expect(await ended).toBe(0);
    await expect(call(port, new Agent())).rejects.toThrow(/ECONNREFUSED/);
  });
});
