import { join } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { must, type Visitor } from "../specification/visitor.ts";
import { until } from "../support/process.ts";
import { type MovableClock, movableClock } from "../support/surroundings/shifted_clock.ts";
import { type FailoverWorld, type PreparedWorld, prepareFailoverWorld } from "./failover_world.ts";
import { KINDS, type Load, startLoad } from "./load.ts";
import { differences } from "./load_differences.ts";
import { createProcess, type Process } from "./processes.ts";
import { openShop, type Shop } from "./shop.ts";
import { type Declaring, startDeclaring } from "./surroundings/declaring.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 300_000 });

/*
 * A whole stack on two machines works under load. The clock of the first one is right: an API, the database
 * and the callers. The clock of the second one is wrong: the other API, the worker, the vault, the operator.
 */

const HOUR = 3_600;
const DAY = 24 * HOUR;
const GOOD_CALLS = 5;
const PAUSE_MS = 200;
/** A count of calls that ends in an hour. */
const COUNT = "from rate_limits where key = 'kept'";
/** Tables that only the passing of time empties while these tests run. */
const KEPT = [
  "spent_challenges",
  "invocations",
  "idempotency_keys",
  "sign_in_mails",
  "sessions",
  "session_families",
  "published_events",
  "inbox",
  "certificates",
  "challenge_keys",
  "webhook_deliveries",
  "agents",
  "connections",
];

let prepared: PreparedWorld;
let world: FailoverWorld;
let operator: Process;
let clock: MovableClock;
let database: Client;
let shop: Shop;
let load: Load;
let declaring: Declaring;
/** The processes of the second machine. */
let wrong: Process[];

const sql = async (text: string) => (await database.query(text)).rows;

beforeAll(async () => {
  prepared = await prepareFailoverWorld();
  const { folder, programs } = prepared;
  clock = movableClock(join(folder, "clock"));
  for (const { env } of [programs.second, programs.worker, programs.keyvault, programs.operator]) {
    Object.assign(env, clock.environment);
  }
  world = await prepared.start();
  operator = createProcess(folder, programs.operator);
  await operator.start();
  wrong = [world.processes.second, world.processes.worker, world.processes.keyvault, operator];
  database = new Client({ connectionString: world.superuserUrl("deputize") });
  await database.connect();
  shop = await openShop(world.bases, "clocks");
  await approve();
  load = await startLoad(world.bases, { pauseMs: PAUSE_MS });
  await sql("insert into rate_limits select 'kept', 1, extract(epoch from now() + interval '1 hour') * 1000");
  const { MANIFESTS_DIR: manifests = "", STATUS_DIR: status = "" } = programs.operator.env;
  declaring = startDeclaring({ operatorFolders: { manifests, status }, sql });
});

afterAll(async () => {
  await operator?.kill();
  await database?.end();
  await prepared?.stop();
});

/** Brings a delegation into force for the agent of `shop`. */
async function approve(): Promise<void> {
  const asked = { connection_id: shop.connectionId };
  const requested = must(await shop.person.call("POST", "/v1/service/delegations/self-request", asked));
  const path = `/v1/service/delegations/requests/${String(requested.request_id)}/approve`;
  must(await shop.person.call("POST", path, { approved_scope: ["data:read"] }));
}

/** Returns the status and the text of a page of the health port. */
async function read(one: Process, page: string): Promise<string> {
  const { env } = Object.values(prepared.programs).find(({ name }) => name === one.name) ?? {};
  const response = await fetch(`http://127.0.0.1:${env?.HEALTH_PORT ?? env?.KEYVAULT_HEALTH_PORT}${page}`);
  return `${response.status} ${await response.text()}`;
}

/** Waits until the processes of the second machine measure that their clock is wrong by these seconds. */
async function untilNoticed(seconds: number): Promise<void> {
  for (const one of wrong) {
    await until(
      `${one.name} notices its clock`,
      async () => {
        const text = await read(one, "/metrics").catch(() => "");
        const [, offset] = /^(?:deputize|keyvault)_clock_offset_seconds (.*)$/m.exec(text) ?? [];
        return Math.abs(Number(offset) - seconds) < 0.1 + Math.abs(seconds) / 10;
      },
      60_000,
    );
  }
}

/** Waits until calls of each kind have succeeded often, and an event was delivered. */
async function untilCallsSucceed(): Promise<void> {
  const { calls, arrivals } = load.known;
  const [since, delivered] = [calls.length, arrivals.size];
  const count = (kind: string) =>
    calls.slice(since).filter((call) => call.isGood && call.kind === kind).length;
  const works = () => KINDS.every((kind) => count(kind) >= GOOD_CALLS) && arrivals.size > delivered;
  const found = () =>
    [...KINDS.map((kind) => `${kind} ${count(kind)}`), `arrivals ${arrivals.size - delivered}`].join(", ");
  await Promise.race([until(() => `calls of each kind succeed: ${found()}`, works, 90_000), load.running]);
}

/** Returns why proofs were refused that nobody had revoked or presented before. */
const refusals = () => [...load.known.refusals.keys()].filter((reason) => reason !== "delegation_revoked");

async function counts(): Promise<Record<string, number>> {
  const columns = KEPT.map((table) => `(select count(*)::int from ${table}) as ${table}`);
  const [found] = await sql(`select ${columns.join(", ")}`);
  return found;
}

async function present(visitor: Visitor): Promise<string> {
  const { challenge } = must(await visitor.call("POST", "/v1/service/challenge"));
  return String(must(await visitor.call("POST", `${shop.agents}/present`, { challenge })).proof_ref);
}

/** Returns the decision's reason, or the code of the refusal. */
async function verify(visitor: Visitor, proof: string): Promise<string> {
  const asked = { proof_ref: proof, required_scope: "data:read" };
  const { status, body } = await visitor.call("POST", "/v1/service/verify", asked);
  if (status === 200) return String(body.decision);
  return String((body.error as { code?: string } | undefined)?.code ?? status);
}

const both = (...seconds: number[]) => seconds.flatMap((one) => [one, -one]);

describe.each(both(0.2, 0.5, 2, 3))("a machine whose clock jumps to a difference of %d s", (seconds) => {
  test("causes no refusal and no denial, and its processes stay ready", async () => {
    clock.set(seconds);
    await untilNoticed(seconds);
    await untilCallsSucceed();
    expect(refusals()).toEqual([]);
    expect(await Promise.all(wrong.map((one) => one.readiness()))).toEqual([200, 200, 200, 200]);
  });
});

describe.each(both(3 * HOUR, 40 * DAY))("a machine whose clock is wrong by %d s", (seconds) => {
  test("deletes nothing early, allows no proof twice, and is not ready, also after a start", async () => {
    const [right, other] = shop.on as [Visitor, Visitor];
    const proof = await present(right);
    const first = await verify(right, proof);
    const keyed = { "idempotency-key": `kept_${seconds}` };
    const asked = { connection_id: shop.connectionId };
    const self = () => shop.person.call("POST", "/v1/service/delegations/self-request", asked, keyed);
    const requested = must(await self());
    const before = await counts();
    clock.set(seconds);
    for (const one of [world.processes.second, world.processes.worker]) {
      await one.kill();
      await one.start();
    }
    await untilNoticed(seconds);
    await untilCallsSucceed();
    expect([first, await verify(other, proof), await verify(right, proof)]).toEqual([
      "allow",
      "invalid_challenge",
      "invalid_challenge",
    ]);
    expect(must(await self())).toEqual(requested);
    const after = await counts();
    expect(KEPT.filter((table) => (after[table] ?? 0) < (before[table] ?? 0))).toEqual([]);
    expect(await sql(`select ${COUNT}`)).toHaveLength(1);
    expect(refusals()).toEqual([]);
    expect(await Promise.all(wrong.map((one) => one.readiness()))).toEqual([503, 503, 503, 503]);
    for (const one of [world.processes.second, world.processes.worker]) {
      expect(await read(one, "/readyz")).toMatch(/^503 not ready: this machine's clock is \d+\.\d s /);
    }
  });
});

test("when the clocks agree again, nothing was lost, invented or allowed twice", async () => {
  clock.set(0);
  await untilNoticed(0);
  await declaring.stop();
  await load.stop();
  const found = {
    ...(await differences(world.superuserUrl("deputize"), load.known)),
    ...(await declaring.differences()),
  };
  expect(Object.entries(found).filter(([, different]) => different.length > 0)).toEqual([]);
  expect(refusals()).toEqual([]);
  expect(await world.keyvault("audit", "verify")).toBe(0);
});
