import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { reconcileLedger } from "../../src/accounts/ledger/reconcile.ts";
import { addSeconds } from "../../src/clock.ts";
import { pruneInvocations } from "../../src/proofs/prune.ts";
import { type Application, errorOf, proofApi } from "./application.ts";
import { decide, operationOf, prove } from "./bound_operations.ts";

const world = proofApi();
const DAY = 86_400;
const keptDays = 30;

const prune = (options = {}) =>
  pruneInvocations({ db: world.api.db, now: world.api.clock.now(), keptDays, ...options });

async function decided() {
  const app = await world.application();
  const operation = operationOf(app);
  const proof = await prove(app, operation);
  const { body } = await decide(app, proof, operation);
  const { receipt_id: receiptId } = body.receipt as { receipt_id: string };
  const report = (fields: object = {}) =>
    app.post(`/v1/service/invocations/${operation.invocation_id}/outcome`, {
      outcome: "executed",
      receipt_id: receiptId,
      occurred_at: "2026-05-01T10:00:00Z",
      ...fields,
    });
  const receipt = async () =>
    (
      await world.api
        .client()
        .get(`/v1/service/receipts/${receiptId}`, { headers: { "x-service-api-key": app.platform.apiKey } })
    ).body;
  return { app, operation, proof, body, receiptId, report, receipt };
}

async function balanceOf({ person }: Application): Promise<number | undefined> {
  return (await world.api.db("balances").where({ account_id: person.accountId }).first())?.balance_micro_usd;
}

async function rows(ages: readonly number[]) {
  const account_id = randomUUID();
  await world.api.db.batchInsert(
    "invocations",
    ages.map((age) => ({
      account_id,
      connection_id: account_id,
      invocation_id: randomUUID(),
      operation_hash: Buffer.alloc(32),
      event_id: randomUUID(),
      decided_at: addSeconds(world.api.clock.now(), -age),
    })),
    1000,
  );
  return () => world.api.db("invocations").where({ account_id }).orderBy("decided_at");
}

describe("a decided operation that is deleted because of its age", () => {
  test("gets its decision again until the deletion, and the same proof is then refused as expired", async () => {
    const { app, operation, proof, body } = await decided();
    const balance = await balanceOf(app);
    world.api.clock.advance(keptDays * DAY);
    await prune();
    expect((await decide(app, proof, operation)).body).toEqual({ ...body, replayed: true });
    world.api.clock.advance(0.001);
    await prune();
    expect(errorOf(await decide(app, proof, operation))).toBe("400 invalid_challenge");
    expect(await world.api.db("invocations").where({ account_id: app.person.accountId })).toEqual([]);
    expect(await balanceOf(app)).toBe(balance);
    const events = await world.api.db("audit_events").where({ account_id: app.person.accountId });
    expect(events.filter(({ decision }) => decision !== null)).toHaveLength(1);
  });

  test("gets a new, charged decision for a fresh proof after the deletion", async () => {
    const { app, operation, body } = await decided();
    const balance = (await balanceOf(app)) ?? 0;
    world.api.clock.advance(keptDays * DAY + 1);
    await prune();
    const again = (await decide(app, await prove(app, operation), operation)).body;
    expect(again).toMatchObject({ decision: "allow", replayed: false });
    expect(again.receipt_hash).not.toBe(body.receipt_hash);
    expect(await balanceOf(app)).toBe(balance - 2_000);
  });

  test("keeps its receipt, outcome, history and charge after the deletion", async () => {
    const { app, report, receipt } = await decided();
    const reported = await report({ detail: "done" });
    const before = await receipt();
    world.api.clock.advance(keptDays * DAY + 1);
    await prune();
    expect(await receipt()).toEqual(before);
    expect(before.outcome).toMatchObject({ outcome: "executed", detail: "done" });
    expect((await report({ detail: "done" })).body).toEqual(reported.body);
    expect(errorOf(await report({ detail: "other" }))).toBe("409 outcome_conflict");
    const { differences } = await reconcileLedger(world.api.db);
    expect(differences.filter(({ account_id }) => account_id === app.person.accountId)).toEqual([]);
  });

  test("accepts one report of its outcome after the deletion", async () => {
    const { report, receipt, receiptId } = await decided();
    world.api.clock.advance(keptDays * DAY + 1);
    await prune();
    expect((await receipt()).outcome).toBeNull();
    expect(errorOf(await report({ receipt_id: randomUUID() }))).toBe("404 not_found");
    const { status, body } = await report({ outcome: "failed" });
    expect([status, body.receipt_id]).toEqual([200, receiptId]);
    expect(errorOf(await report())).toBe("409 outcome_conflict");
    expect((await receipt()).outcome).toMatchObject({ outcome: "failed" });
  });
});

describe("pruneInvocations", () => {
  test("deletes each old row once, even if several processes run concurrently", async () => {
    await prune();
    const left = await rows([
      ...Array.from({ length: 3_500 }, (_, n) => keptDays * DAY + 0.001 + n),
      ...Array.from({ length: 20 }, (_, n) => keptDays * DAY - n),
    ]);
    const counts = await Promise.all(Array.from({ length: 4 }, () => prune()));
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(3_500);
    const end = addSeconds(world.api.clock.now(), -keptDays * DAY);
    const dates = (await left()).map(({ decided_at }) => decided_at.getTime());
    expect([dates.length, dates[0]]).toEqual([20, end.getTime()]);
  });

  test("uses small statements, each with its own commit", async () => {
    const left = await rows(Array.from({ length: 25 }, () => (keptDays + 1) * DAY));
    const { db } = world.api;
    const [statements, counts]: [string[], number[]] = [[], []];
    const note = (answer: { rowCount: number }, { sql }: { sql: string }) => {
      // The service's background loops use the same database.
      if (!sql.includes("invocations")) return;
      statements.push(sql.split(" ")[0] ?? "");
      counts.push(answer.rowCount);
    };
    db.on("query-response", note);
    await prune({ batch: 10 });
    db.off("query-response", note);
    expect([new Set(statements), counts]).toEqual([new Set(["delete"]), [10, 10, 5]]);
    expect(await left()).toEqual([]);
  });

  test("does not wait for a locked row, and deletes the row in the next run", async () => {
    const left = await rows([(keptDays + 2) * DAY, (keptDays + 1) * DAY]);
    const [held] = await left();
    const other = await world.api.db.transaction();
    await other("invocations")
      .where({ invocation_id: held?.invocation_id ?? "" })
      .forUpdate();
    expect(await prune()).toBe(1);
    expect(await left()).toEqual([held]);
    await other.commit();
    expect(await prune()).toBe(1);
  });

  test("stops when the signal aborts", async () => {
    const left = await rows([(keptDays + 1) * DAY]);
    expect(await prune({ signal: AbortSignal.abort() })).toBe(0);
    expect(await left()).toHaveLength(1);
  });
});
