import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { WRONG_SETTING } from "../src/config.ts";
import { freePort } from "../src/dev/process/ports.ts";
import { type RunningRole, run, runWorker } from "../src/roles.ts";
import { makeConnection } from "./events/support/connection.ts";
import { useDatabase } from "./events/support/database.ts";
import { append, deniedEvent } from "./events/support/events.ts";
import { startReceiver } from "./events/support/receiver.ts";
import { SEALING_KEY } from "./events/support/worker.ts";
import { until } from "./support/process.ts";
import { startRole } from "./support/role_process.ts";
import { vaultFiles } from "./support/vault_files.ts";

const home = useDatabase();
let port: number;
let signals: EventEmitter;
let exits: unknown[];

beforeEach(async () => {
  port = await freePort();
  signals = new EventEmitter();
  exits = [];
  vi.spyOn(process, "exit").mockImplementation(((status) => void exits.push(status)) as typeof process.exit);
});
afterEach(() => void vi.restoreAllMocks());

const send = (signal: NodeJS.Signals) => void signals.emit(signal, signal);

/** Returns the HTTP status of a health page, or 0 if nothing listens. */
const health = (page: string) =>
  fetch(`http://127.0.0.1:${port}${page}`).then(
    ({ status }) => status,
    () => 0,
  );
const untilReady = () => until("it is ready", async () => (await health("/readyz")) === 200);

type FakeRole = RunningRole & { done: string[]; ready: boolean };

function fakeRole(change: Partial<RunningRole> = {}): FakeRole {
  const role: FakeRole = {
    done: [],
    ready: true,
    isReady: async () => role.ready,
    drain: async () => void role.done.push("drained"),
    stop: async () => void role.done.push("stopped"),
    ...change,
  };
  return role;
}

function runRole(start: () => Promise<RunningRole>, url?: string): Promise<void> {
  const settings = { LOG_LEVEL: "silent", HEALTH_HOST: "127.0.0.1", HEALTH_PORT: port } as const;
  return run("test", { ...settings, ...(url && { DATABASE_URL: url }) }, start, signals);
}

describe("a role", () => {
  test("reports whether its parts are ready and alive", async () => {
    let alive = true;
    const role = fakeRole({ isAlive: () => alive });
    const running = runRole(async () => role);
    await untilReady();
    expect(await health("/livez")).toBe(200);
    role.ready = false;
    alive = false;
    expect([await health("/readyz"), await health("/livez")]).toEqual([503, 503]);
    role.ready = true;
    send("SIGINT");
    await running;
  });

  test.each(["SIGTERM", "SIGINT"] as const)(
    "becomes not ready at %s, drains, and then stops and closes its health port",
    async (signal) => {
      const drained = Promise.withResolvers<void>();
      const role = fakeRole({ drain: () => drained.promise });
      const running = runRole(async () => role);
      await untilReady();
      send(signal);
      await until("it is not ready", async () => (await health("/readyz")) === 503);
      expect([await health("/livez"), role.done]).toEqual([200, []]);
      drained.resolve();
      await running;
      expect([await health("/livez"), role.done]).toEqual([0, ["stopped"]]);
    },
  );

  test("does not become ready again if it was asked just before the signal", async () => {
    const [asked, drained] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const answer = Promise.withResolvers<boolean>();
    const isReady = () => {
      asked.resolve();
      return answer.promise;
    };
    const running = runRole(async () => fakeRole({ isReady, drain: () => drained.promise }));
    await until("it has started", async () => (await health("/livez")) === 200);
    const status = health("/readyz");
    await asked.promise;
    send("SIGTERM");
    answer.resolve(true);
    expect(await status).toBe(503);
    drained.resolve();
    await running;
  });

  test.each(["SIGTERM", "SIGINT"] as const)(
    "lets %s end the process after a first signal",
    async (second) => {
      const stopped = Promise.withResolvers<void>();
      const running = runRole(async () => fakeRole({ stop: () => stopped.promise }));
      await untilReady();
      expect(signals.listenerCount(second)).toBe(1);
      send("SIGTERM");
      expect(signals.listenerCount(second)).toBe(0);
      stopped.resolve();
      await running;
    },
  );

  test("starts only when the database has its schema, and is alive but not ready until then", async () => {
    const migrations = home.database("schema_migrations");
    const newest = migrations.clone().where({ id: migrations.clone().max("id") });
    const [undone] = await newest.clone().delete().returning("*");
    let starts = 0;
    const running = runRole(async () => {
      starts += 1;
      return fakeRole();
    }, home.url);
    await until("it is alive", async () => (await health("/livez")) === 200);
    const looks = () =>
      home.database("pg_stat_activity").where({ application_name: "deputize-schema", state: "idle" });
    await until("it has looked", async () => (await looks()).length > 0);
    expect([await health("/readyz"), starts]).toEqual([503, 0]);
    await migrations.clone().insert(undone);
    await untilReady();
    send("SIGTERM");
    await running;
    expect(starts).toBe(1);
  });

  test("ends at a signal while it waits for the database, and does not start", async () => {
    let starts = 0;
    const running = runRole(async () => {
      starts += 1;
      return fakeRole();
    }, "postgres://127.0.0.1:1/none");
    await until("it is alive", async () => (await health("/livez")) === 200);
    send("SIGTERM");
    await running;
    expect([starts, exits]).toEqual([0, []]);
  });

  test("exits at a signal during its start", async () => {
    const started = Promise.withResolvers<RunningRole>();
    const running = runRole(() => started.promise);
    await until("it is alive", async () => (await health("/livez")) === 200);
    send("SIGTERM");
    await until("it exits", () => exits.length > 0);
    expect(exits).toEqual([0]);
    started.resolve(fakeRole());
    await running;
  });

  test("closes its health port if its start fails", async () => {
    await expect(runRole(async () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await health("/livez")).toBe(0);
  });
});

describe("the worker role", () => {
  beforeEach(() => {
    const settings = {
      ...{ DATABASE_URL: home.url, SEALING_KEY, LOG_LEVEL: "silent", HEALTH_PORT: String(port) },
      ...{ DEVELOPMENT: "true", WEBHOOK_ALLOWED_CIDRS: "127.0.0.0/8" },
      ...{ LEASE_SECONDS: "300", CLAIM_SECONDS: "3000" },
    };
    for (const [name, value] of Object.entries(settings)) vi.stubEnv(name, value);
  });
  afterEach(() => void vi.unstubAllEnvs());

  test("works with its settings, and finishes a running delivery after SIGTERM", async () => {
    const receiver = await startReceiver();
    const connection = await makeConnection(home.database, receiver.url);
    receiver.secret = connection.secret;
    const answer = Promise.withResolvers<number>();
    receiver.reply = () => answer.promise;
    const timers = vi.spyOn(globalThis, "setTimeout");
    const running = runWorker(signals);
    await append(home.database, deniedEvent(connection, "req-0"));
    await until("the delivery is under way", () => receiver.open === 1);
    await untilReady();
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const { rows } = await home.database.raw(
      `select (select round(extract(epoch from max(alive_until) - now()) / 100) from relay_workers)::int as lease,
              (select round(extract(epoch from max(lease_until) - now()) / 100) from webhook_deliveries)::int as claim`,
    );
    const pauses = new Set(timers.mock.calls.map(([, milliseconds]) => milliseconds));
    timers.mockClear();
    send("SIGTERM");
    await until("it is not ready", async () => (await health("/readyz")) === 503);
    await until("its stop has a limit", () => timers.mock.calls.some(([, ms]) => ms === 25_000));
    const limit = timers.mock.calls.find(([, milliseconds]) => milliseconds === 25_000)?.[0] as () => void;
    answer.resolve(204);
    await running;
    expect(rows).toEqual([{ lease: 3, claim: 30 }]);
    expect(pauses).toContain(100_000);
    expect(metrics).toContain('deputize_ready{role="worker"} 1');
    expect(metrics).toContain('deputize_consumer_events_total{consumer="webhooks",outcome="handled"} 1');
    expect(await home.database("webhook_deliveries").pluck("state")).toEqual(["delivered"]);
    expect(exits).toEqual([]);
    limit();
    expect(exits).toEqual([1]);
    await receiver.close();
  });

  test("exits with status 78 if EVENTS has changed while events wait", async () => {
    await append(home.database, deniedEvent(await makeConnection(home.database, null), "req-0"));
    await home.database("event_way").update({ way: "kafka" });
    const running = runWorker(signals);
    await until("it exits", () => exits.length > 0);
    await home.database("event_way").update({ way: "embedded" });
    send("SIGTERM");
    await running;
    expect(exits[0]).toBe(WRONG_SETTING);
  });
});

test("deputize api exits with status 78 and one line if its port is in use, after its loops have started", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const role = startRole("api", {
    ...{ DATABASE_URL: home.url, SEALING_KEY, BASE_URL: "http://127.0.0.1", DEVELOPMENT: "true" },
    ...{ VAULT_URL: "https://127.0.0.1:1", ...(await vaultFiles()), LOG_LEVEL: "silent", PORT: String(port) },
  });
  expect(await role.exit).toBe(WRONG_SETTING);
  expect(role.errors()).toMatch(new RegExp(`^PORT: port ${port} of 127\\.0\\.0\\.1 is in use\\. Stop .*\n$`));
  server.close();
});

test("deputize migrate waits MIGRATE_WAIT_SECONDS for the database, and then exits with status 3", async () => {
  const settings = { DATABASE_URL: "postgres://127.0.0.1:1/none", MIGRATE_WAIT_SECONDS: "1" };
  const role = startRole("migrate", settings);
  expect(await role.exit).toBe(3);
  expect(role.log.at(-1)?.msg).toContain("The database did not answer in 1 s: ");
});
