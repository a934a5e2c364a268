import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { Registry } from "prom-client";
import { expect, onTestFinished, vi } from "vitest";
import { createReconciliation } from "../../src/accounts/ledger/reconcile.ts";
import { MAX_ATTEMPTS } from "../../src/accounts/mail/retries.ts";
import { createStopTokens } from "../../src/accounts/mailings/stop_links.ts";
import { createNoticeSender } from "../../src/accounts/notices/sender.ts";
import { addSeconds } from "../../src/clock.ts";
import { showReadiness } from "../../src/http/server/health.ts";
import { createDecisionQueue } from "../../src/proofs/admission/admission.ts";
import { echoRoute, failingRoute, refusal } from "../http/support/sample_routes.ts";
import { proofApi } from "../proofs/application.ts";
import { decide, operationOf, prove } from "../proofs/bound_operations.ts";
import { insertNotice } from "../support/account_rows.ts";
import { steeredClock } from "../support/clock.ts";

const SLOW_MS = 50;
const NOW = new Date("2027-03-01T00:00:00.000Z");
const log = pino({ level: "silent" });
const world = proofApi({ routes: [slowRoute(), failingRoute(refusal("agent_disabled"))] });

/** Returns a route whose handler takes at least 50 ms. */
function slowRoute() {
  return echoRoute({
    id: "slow",
    path: "/v1/service/slow",
    async handle() {
      const end = performance.now() + SLOW_MS;
      while (performance.now() < end) await sleep(1);
      return { body: {} };
    },
  });
}

/**
 * Reads a series as Prometheus does, for example `{ '{cause="late"}': 2 }`. A value without labels has the
 * key `""`.
 */
async function shown(registry: Registry, series: string): Promise<Record<string, number>> {
  const lines = (await registry.metrics()).split("\n");
  const values = lines.flatMap((line) => {
    const [, name, labels = "", value] = /^([a-z_]+)(\{.*\})? (\S+)$/.exec(line) ?? [];
    return name === series ? [[labels, Number(value)] as const] : [];
  });
  return Object.fromEntries(values);
}

const ofApi = async (series: string, labels = "") =>
  (await shown(world.api.metrics.registry, series))[labels];

/** Fills the decision queue: 64 calls run, and `waiting` calls wait. Returns a function that ends them. */
function filledQueue(waiting: number) {
  vi.useFakeTimers({ toFake: ["performance", "setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const registry = new Registry();
  const queue = createDecisionQueue({ registry });
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const calls = Array.from({ length: 64 + waiting }, () => queue.run("account", () => end));
  return {
    read: (series: string) => shown(registry, series),
    refused: () => shown(registry, "deputize_decisions_refused_total"),
    call: () => queue.run("account", () => end),
    async end() {
      resolve();
      await Promise.allSettled(calls);
    },
  };
}

/** Inserts a notice that is due at `NOW`, and returns functions that try to mail it. */
async function dueNotice() {
  const { db } = world.api;
  const { accountId } = await world.api.person();
  await db("notices").delete();
  const event_id = await insertNotice(db, { accountId, at: NOW, createdAt: addSeconds(NOW, -90) });
  const registry = new Registry();
  const mailer = { send: async () => {} };
  const clock = steeredClock(NOW);
  const place = { baseUrl: "https://api.example.com", word: "service" };
  const stopTokens = createStopTokens(Buffer.alloc(32));
  const sender = createNoticeSender({ db, clock, mailer, log, metrics: { registry }, place, stopTokens });
  return {
    read: (series: string) => shown(registry, series),
    clock,
    step: sender.step,
    fail: () => {
      mailer.send = () => Promise.reject(new Error("away"));
    },
    repair: () => {
      mailer.send = async () => {};
    },
    lastAttempt: () =>
      db("notices")
        .where({ event_id })
        .update({ attempts: MAX_ATTEMPTS - 1, next_attempt_at: NOW }),
  };
}

/** For each metric of the API, and of all roles, a test that causes each event of the metric and reads it. */
export const metricEvents: Record<string, () => Promise<void>> = {
  async deputize_ready() {
    let isReady = true;
    const registry = new Registry();
    showReadiness({ registry }, "worker", async () => isReady);
    for (const ready of [true, false, true]) {
      isReady = ready;
      expect(await shown(registry, "deputize_ready")).toEqual({ '{role="worker"}': ready ? 1 : 0 });
    }
  },

  async deputize_http_request_seconds() {
    const name = "deputize_http_request_seconds";
    const labels = 'route="slow",status="200"';
    const start = performance.now();
    await world.api.client().post("/v1/service/slow");
    const elapsed = performance.now() - start;
    const seconds = await ofApi(`${name}_sum`, `{${labels}}`);
    expect(seconds).toBeGreaterThanOrEqual(SLOW_MS / 1000);
    expect(seconds).toBeLessThanOrEqual(elapsed / 1000);
    expect(await ofApi(`${name}_bucket`, `{le="0.025",${labels}}`)).toBe(0);
    expect(await ofApi(`${name}_bucket`, `{le="+Inf",${labels}}`)).toBe(1);
    await world.api.operatorClient().get("/v1/operator/nothing");
    expect(await ofApi(`${name}_count`, '{route="none",status="404"}')).toBe(1);
  },

  async deputize_http_errors_total() {
    const refused = () => ofApi("deputize_http_errors_total", '{code="agent_disabled"}');
    expect(await refused()).toBe(0);
    await world.api.client().post("/v1/service/fail");
    await world.api.client().post("/v1/service/fail");
    await world.api.client().post("/v1/service/slow");
    expect(await refused()).toBe(2);
  },

  async deputize_proof_decisions_total() {
    const counted = () => shown(world.api.metrics.registry, "deputize_proof_decisions_total");
    const counts = (allow: number, deny: number, indeterminate: number) => ({
      '{decision="allow"}': allow,
      '{decision="deny"}': deny,
      '{decision="indeterminate"}': indeterminate,
    });
    expect(await counted()).toEqual(counts(0, 0, 0));
    const app = await world.application(["data:read", "payments:send"]);
    const operation = operationOf(app);
    await decide(app, await prove(app, operation), operation);
    expect(await counted()).toEqual(counts(1, 0, 0));
    expect((await decide(app, await prove(app, operation), operation)).body.replayed).toBe(true);
    expect(await counted()).toEqual(counts(1, 0, 0));
    const spent = await app.proof();
    await app.verify(spent, { required_scope: "files:read" });
    expect((await app.verify(spent)).status).toBe(400);
    const unknown = await app.proof();
    await world.api.db("certificates").where({ cert_id: app.certId }).delete();
    await app.verify(unknown);
    expect(await counted()).toEqual(counts(1, 1, 1));
  },

  async deputize_decisions_running() {
    const queue = filledQueue(3);
    expect(await queue.read("deputize_decisions_running")).toEqual({ "": 64 });
    await queue.end();
    expect(await queue.read("deputize_decisions_running")).toEqual({ "": 0 });
  },

  async deputize_decisions_waiting() {
    const queue = filledQueue(3);
    expect(await queue.read("deputize_decisions_waiting")).toEqual({ "": 3 });
    await queue.end();
    expect(await queue.read("deputize_decisions_waiting")).toEqual({ "": 0 });
  },

  async deputize_decisions_refused_total() {
    const full = filledQueue(4_096);
    expect(await full.refused()).toEqual({ '{cause="late"}': 0, '{cause="full"}': 0 });
    await expect(full.call()).rejects.toMatchObject({ code: "unavailable" });
    expect(await full.refused()).toEqual({ '{cause="late"}': 0, '{cause="full"}': 1 });
    await full.end();
    // After half a second, each running call frees its slot, so 64 more calls run until the end.
    const late = filledQueue(64 + 5);
    vi.advanceTimersByTime(1_000);
    expect(await late.refused()).toEqual({ '{cause="late"}': 5, '{cause="full"}': 0 });
    await late.end();
  },

  async deputize_ledger_differences() {
    const { db: database, clock } = world.api;
    const { accountId } = await world.api.person();
    const registry = new Registry();
    const reconcile = createReconciliation({ database, clock, log, metrics: { registry } });
    const changeBalance = (by: number) =>
      database("balances").where({ account_id: accountId }).increment("balance_micro_usd", by);
    const expected = (balance: number) => ({
      '{kind="balance"}': balance,
      '{kind="books"}': 0,
      '{kind="charge_without_decision"}': 0,
      '{kind="decision_without_charge"}': 0,
      '{kind="grant_without_record"}': 0,
    });
    for (const difference of [1, -1]) {
      await changeBalance(difference);
      await reconcile();
      const found = difference === 1 ? 1 : 0;
      expect(await shown(registry, "deputize_ledger_differences")).toEqual(expected(found));
    }
  },

  async deputize_ledger_accounts() {
    const { db: database, clock } = world.api;
    const registry = new Registry();
    const reconcile = createReconciliation({ database, clock, log, metrics: { registry } });
    const accounts = async () => {
      await reconcile();
      return (await shown(registry, "deputize_ledger_accounts"))[""];
    };
    const before = await accounts();
    await world.api.person();
    expect(await accounts()).toBe((before ?? 0) + 1);
  },

  async deputize_notices_waiting() {
    const notice = await dueNotice();
    notice.fail();
    await notice.step();
    expect(await notice.read("deputize_notices_waiting")).toEqual({ "": 1 });
    notice.repair();
    notice.clock.advance(60);
    await notice.step();
    expect(await notice.read("deputize_notices_waiting")).toEqual({ "": 0 });
  },

  async deputize_notices_oldest_seconds() {
    const notice = await dueNotice();
    notice.fail();
    await notice.step();
    expect(await notice.read("deputize_notices_oldest_seconds")).toEqual({ "": 90 });
    notice.repair();
    notice.clock.advance(60);
    await notice.step();
    expect(await notice.read("deputize_notices_oldest_seconds")).toEqual({ "": 0 });
  },

  async deputize_notice_attempts_total() {
    const notice = await dueNotice();
    const attempts = () => notice.read("deputize_notice_attempts_total");
    notice.fail();
    await notice.step();
    expect(await attempts()).toEqual({ '{outcome="retried"}': 1 });
    await notice.lastAttempt();
    await notice.step();
    expect(await attempts()).toEqual({ '{outcome="retried"}': 1, '{outcome="failed"}': 1 });
    const other = await dueNotice();
    await other.step();
    expect(await other.read("deputize_notice_attempts_total")).toEqual({ '{outcome="sent"}': 1 });
  },
};
