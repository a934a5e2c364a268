import { readFile } from "node:fs/promises";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { must, type Visitor } from "../specification/visitor.ts";
import { type DevStack, environmentOf, startDevStack } from "../support/dev_stack.ts";
import { until } from "../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { shiftedClock } from "../support/surroundings/shifted_clock.ts";
import { openShop, type Shop } from "./shop.ts";

/*
 * The whole stack runs with the clock of this machine. Each test adds an API and a worker whose clock is
 * wrong. They share the database, the vault and the operator with the others.
 */

const HOUR = 3_600;
const DAY = 24 * HOUR;
const PROOFS = 12;
/** Tables that only the passing of time empties while these tests run. */
const KEPT = [
  "spent_challenges",
  "invocations",
  "idempotency_keys",
  "sign_in_mails",
  "rate_limits",
  "sessions",
  "session_families",
  "published_events",
  "inbox",
  "certificates",
  "challenge_keys",
];

let stack: DevStack;
let database: Client;
let shop: Shop;
let environments: Record<"api" | "worker", Record<string, string>>;
const roles: RoleProcess[] = [];

beforeAll(async () => {
  stack = await startDevStack();
  const ports = { PORT: "0", HEALTH_PORT: "0", OPERATOR_PORT: "0", DRAIN_SECONDS: "0" };
  environments = {
    api: { ...(await environmentOf(stack, "api")), ...ports },
    worker: { ...(await environmentOf(stack, "worker")), HEALTH_PORT: "0" },
  };
  const url = (await readFile(environments.api.DATABASE_URL_FILE as string, "utf8")).trim();
  database = new Client({ connectionString: url });
  await database.connect();
  shop = await openShop([stack.baseUrl], "clocks");
  await approve(shop.person);
});

afterEach(() => killRoles(roles));

afterAll(async () => {
  await database?.end();
  await stack?.stop();
});

/** Requests a delegation and approves it at the API of `person`. Returns the certificate's id. */
async function approve(person: Visitor): Promise<string> {
  const asked = { connection_id: shop.connectionId };
  const requested = must(await shop.person.call("POST", "/v1/service/delegations/self-request", asked));
  const path = `/v1/service/delegations/requests/${String(requested.request_id)}/approve`;
  return String(must(await person.call("POST", path, { approved_scope: ["data:read"] })).cert_id);
}

/** An API whose clock is wrong. It may not be ready, but it answers. */
type WrongApi = { role: RoleProcess; worker: RoleProcess; application: Visitor; person: Visitor };

async function startWrong(seconds: number): Promise<WrongApi> {
  const [role, worker] = (["api", "worker"] as const).map((name) => {
    const started = startRole(name, { ...environments[name], ...shiftedClock(seconds) });
    roles.push(started);
    return started;
  }) as [RoleProcess, RoleProcess];
  const ready = (one: RoleProcess) => one.log.some(({ msg }) => msg === "ready");
  await until("both have started", () => ready(role) && ready(worker), 90_000);
  const port = Number(role.log.find(({ msg }) => msg === "api listens")?.port);
  return { role, worker, ...shop.at(`http://127.0.0.1:${port}`) };
}

async function present(visitor: Visitor, certId?: string): Promise<string> {
  const { challenge } = must(await visitor.call("POST", "/v1/service/challenge"));
  const choice = { challenge, ...(certId !== undefined && { cert_id: certId }) };
  return String(must(await visitor.call("POST", `${shop.agents}/present`, choice)).proof_ref);
}

/** Returns the decision's reason, or the code of the refusal. */
async function verify(visitor: Visitor, proof: string): Promise<string> {
  const asked = { proof_ref: proof, required_scope: "data:read" };
  const { status, body } = await visitor.call("POST", "/v1/service/verify", asked);
  if (status === 200) return `${String(body.decision)} ${String(body.decision_reason)}`;
  return String((body.error as { code?: string } | undefined)?.code ?? status);
}

async function counts(): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const table of KEPT) {
    const { rows } = await database.query(`select count(*)::int as count from ${table}`);
    found[table] = rows[0].count;
  }
  return found;
}

/** Returns the status and the text of a role's `/readyz`. */
async function readiness({ log }: RoleProcess): Promise<string> {
  const port = log.find((line) => "health_port" in line)?.health_port;
  const response = await fetch(`http://127.0.0.1:${port}/readyz`);
  return `${response.status} ${await response.text()}`;
}

async function metric({ log }: RoleProcess, name: string): Promise<number> {
  const port = log.find((line) => "health_port" in line)?.health_port;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1]);
}

const both = (...seconds: number[]) => seconds.flatMap((one) => [one, -one]);

describe.each(both(0.2, 0.5, 2, 3))("an API whose clock is wrong by %d s", (seconds) => {
  test("refuses no proof and no certificate of the other API, and the other API none of its own", async () => {
    const { application: wrong, person, role } = await startWrong(seconds);
    const right = shop.on[0] as Visitor;
    const reasons: string[] = [];
    for (let n = 0; n < PROOFS; n += 1) {
      reasons.push(await verify(wrong, await present(right)), await verify(right, await present(wrong)));
    }
    const [onRight, onWrong] = [await approve(shop.person), await approve(person)];
    reasons.push(await verify(wrong, await present(right, onRight)));
    reasons.push(await verify(right, await present(wrong, onWrong)));
    expect(reasons.filter((reason) => !reason.startsWith("allow "))).toEqual([]);
    expect(await readiness(role)).toMatch(/^200 /);
    expect(await metric(role, "deputize_clock_offset_seconds")).toBeCloseTo(seconds, 0);
  });
});

describe.each(both(3 * HOUR, 40 * DAY))("an API and a worker whose clock is wrong by %d s", (seconds) => {
  test("delete nothing early, allow no proof twice, and are not ready", async () => {
    const right = shop.on[0] as Visitor;
    const proof = await present(right);
    expect(await verify(right, proof)).toMatch(/^allow /);
    const keyed = { "idempotency-key": `kept_${seconds}` };
    const asked = { connection_id: shop.connectionId };
    const self = () => shop.person.call("POST", "/v1/service/delegations/self-request", asked, keyed);
    const first = must(await self());
    const before = await counts();
    const { application: wrong, role, worker } = await startWrong(seconds);
    const upkeepHas = (one: RoleProcess) => one.log.filter(({ level }) => Number(level) >= 50);
    // A decision at this API comes after its upkeep has prepared the tables.
    const fresh = await present(right);
    expect(await verify(wrong, fresh)).toMatch(/^allow /);
    expect([await verify(wrong, fresh), await verify(right, fresh)]).toEqual([
      "invalid_challenge",
      "invalid_challenge",
    ]);
    expect([await verify(wrong, proof), await verify(right, proof)]).toEqual([
      "invalid_challenge",
      "invalid_challenge",
    ]);
    expect(must(await self())).toEqual(first);
    const after = await counts();
    expect(KEPT.filter((table) => (after[table] ?? 0) < (before[table] ?? 0))).toEqual([]);
    for (const one of [role, worker]) {
      expect(upkeepHas(one)).toEqual([]);
      expect(await readiness(one)).toMatch(/^503 not ready: this machine's clock is \d+\.\d s /);
      expect(one.log.filter(({ clock_offset_seconds }) => clock_offset_seconds !== undefined)).toHaveLength(
        1,
      );
      expect(await metric(one, "deputize_clock_offset_seconds")).toBeCloseTo(seconds, 0);
    }
  });
});
