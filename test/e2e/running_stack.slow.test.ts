import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Migration, migrate, migrations } from "../../src/db/migrate.ts";
import { must, type Visitor } from "../specification/visitor.ts";
import { type DevStack, environmentOf, startDevStack } from "../support/dev_stack.ts";
import { until } from "../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { type Backend, startTcpBalancer, type TcpBalancer } from "../support/surroundings/tcp_balancer.ts";
import { openShop, type Shop } from "./shop.ts";

/*
 * The last test upgrades two APIs like Kubernetes: it migrates, and then replaces one API after the other
 * under load. The load balancer notices changed readiness with a delay.
 */

const CALLERS = 8;
const LOOK_MS = 500;
/** Seconds. Longer than the load balancer's delay. */
const DRAIN_SECONDS = "3";

/** A migration that changes tables to which decisions write, as a release may do. */
const next: Migration = {
  name: "9001_next",
  sql: `alter table audit_events add column next_thing text;
        alter table certificates add column next_thing text not null default 'none';
        create index next_things on certificates (next_thing)`,
};

let stack: DevStack;
let environment: Record<string, string>;
let balancer: TcpBalancer;
let shop: Shop;
const apis: RoleProcess[] = [];
const backends = new Map<RoleProcess, Backend>();

beforeAll(async () => {
  stack = await startDevStack();
  environment = {
    ...(await environmentOf(stack, "api")),
    PORT: "0",
    HEALTH_PORT: "0",
    OPERATOR_PORT: "0",
    DRAIN_SECONDS,
  };
  balancer = await startTcpBalancer(LOOK_MS);
  shop = await openShop([stack.baseUrl, balancer.url], "rolling");
  const asked = { connection_id: shop.connectionId };
  const { request_id } = must(await shop.person.call("POST", "/v1/service/delegations/self-request", asked));
  const approve = `/v1/service/delegations/requests/${String(request_id)}/approve`;
  must(await shop.person.call("POST", approve, { approved_scope: ["data:read"] }));
});

afterAll(async () => {
  await killRoles(apis);
  await balancer?.stop();
  await stack?.stop();
});

async function startBehindBalancer(): Promise<RoleProcess> {
  const api = startRole("api", environment);
  apis.push(api);
  await api.ready();
  const port = Number(api.log.find(({ msg }) => msg === "api listens")?.port);
  const backend = { port, isReady: async () => (await api.health("/readyz")) === 200 };
  backends.set(api, backend);
  balancer.backends.add(backend);
  await until(
    "the balancer knows it",
    async () => new Promise((resolve) => setTimeout(resolve, 2 * LOOK_MS, true)),
  );
  return api;
}

async function replace(former: RoleProcess): Promise<RoleProcess> {
  const api = await startBehindBalancer();
  expect(await former.end()).toBe(0);
  balancer.backends.delete(backends.get(former) as Backend);
  return api;
}

async function verifyOn(visitor: Visitor, seen: { allowed: number; wrong: string[] }, signal: AbortSignal) {
  const note = (what: string) => seen.wrong.push(what);
  const ask = async (path: string, body?: unknown): Promise<Record<string, unknown> | undefined> => {
    const answer = await visitor.call("POST", path, body).catch((error: Error) => {
      note(`${path}: ${error.message} ${String((error.cause as Error | undefined)?.message)}`);
    });
    if (answer === undefined) return undefined;
    if (answer.status === 200) return answer.body;
    note(`${path}: ${answer.status} ${answer.text}`);
    return undefined;
  };
  while (!signal.aborted) {
    const given = await ask("/v1/service/challenge");
    const made = given && (await ask(`${shop.agents}/present`, { challenge: given.challenge }));
    const proof = { proof_ref: made?.proof_ref, required_scope: "data:read" };
    const decided = made && (await ask("/v1/service/verify", proof));
    if (decided === undefined) continue;
    if (decided.decision === "allow") seen.allowed += 1;
    else note(`decided: ${JSON.stringify(decided)}`);
  }
}

const main = fileURLToPath(new URL("../specification/main.ts", import.meta.url));

function run(...args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { maxBuffer: 2 ** 24 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

test("the running stack matches every row of the specification", async () => {
  const { code, output } = await run("--base-url", stack.baseUrl, "--limits");
  expect(code, output).toBe(0);
  expect(output).not.toMatch(/skipped/);
});

test("the specification suite exits with 2 for wrong arguments, and with 1 if nothing answers", async () => {
  expect((await run()).code).toBe(2);
  expect((await run("--base-url", "nowhere")).code).toBe(2);
  expect((await run("--base-url", "http://127.0.0.1:1")).code).toBe(1);
});

test("a migration and the replacement of both APIs under load cause no 5xx, no reset and no lost decision", {
  timeout: 300_000,
}, async () => {
  const url = (await readFile(environment.DATABASE_URL_FILE as string, "utf8")).trim();
  let [first, second] = [await startBehindBalancer(), await startBehindBalancer()];
  const seen = { allowed: 0, wrong: [] as string[] };
  const ending = new AbortController();
  const visitor = shop.on[1] as Visitor;
  const load = Array.from({ length: CALLERS }, () => verifyOn(visitor, seen, ending.signal));
  await until("load", () => seen.allowed > 50, 60_000);
  expect(await migrate(url, { migrations: [...migrations, next] })).toEqual({ applied: ["9001_next"] });
  const atMigration = seen.allowed;
  [first, second] = [await replace(first), await replace(second)];
  const between = seen.allowed;
  await until("load on the new ones", () => seen.allowed > between + 50, 60_000);
  ending.abort();
  await Promise.all(load);
  console.log({ allowed: seen.allowed, atMigration, wrong: seen.wrong.length });
  expect(seen.wrong).toEqual([]);
  expect(balancer.faults).toEqual([]);
  expect(between).toBeGreaterThan(atMigration);
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    "select count(*)::int from audit_events where connection_id = $1 and event_type = 'proof.verified'",
    [shop.connectionId],
  );
  await client.end();
  expect(rows).toEqual([{ count: seen.allowed }]);
  const reconciled = startRole("reconcile", { DATABASE_URL: url });
  expect(await reconciled.exit).toBe(0);
});
