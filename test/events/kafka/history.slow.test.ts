import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds, systemClock } from "../../../src/clock.ts";
import { topics } from "../../../src/events/kafka/settings.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { historyColumns, showHistoryRow } from "../../../src/history/history_entry.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { decisionWorld } from "../../proofs/decision_world.ts";
import { insertRecords, itemFor, type Records } from "../../proofs/records.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import { kafkaForTests, type TestKafka } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { type KafkaWorld, kafkaWorld, readTopic } from "./kafka_world.ts";

const START_MS = 10 * 60_000;
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const { missing, start } = await kafkaForTests();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the history on the audit topic", { timeout: 120_000 }, () => {
  const home = decisionWorld();
  let kafka: TestKafka;
  let world: KafkaWorld;
  beforeAll(async () => {
    kafka = await start();
    await home.db("event_way").update({ way: "kafka" });
    world = await kafkaWorld({ database: home.db }, kafka.brokers);
  }, START_MS);
  afterAll(async () => {
    await world?.dispose();
    await kafka?.stop();
  });

  async function join(): Promise<() => Promise<void>> {
    const workerId = randomUUID();
    const leases = createShardLeases(home.db, workerId);
    await leases.renew();
    const bus = world.join(workerId);
    return async () => {
      await leases.release();
      await bus.close();
    };
  }

  async function shownTo({ accountId }: Records): Promise<string[]> {
    const rows = await home
      .db("audit_events as e")
      .where({ "e.account_id": accountId })
      .orderBy(["e.occurred_at", "e.event_id"])
      .select(...historyColumns(home.db));
    return rows.map((row) => JSON.stringify(showHistoryRow(row as never)));
  }

  const drained = () =>
    until("the queue is empty", async () => (await home.db("history_queue").first()) === undefined, 60_000);

  test("contains every row once and in order, as the API shows it, while two workers send rows", async () => {
    const accounts = await Promise.all(Array.from({ length: 12 }, () => insertRecords(home.db, 1e9)));
    const [verifier, prover] = accounts as [Records, Records];
    await acceptPrincipal(home.db, verifier, prover, { created_at: new Date() });
    const shared = itemFor(verifier, {
      rootAccountId: prover.accountId,
      humanId: prover.humanId,
      certificates: [{ accountId: prover.accountId, certId: prover.certId }],
      traceparent: TRACE,
    });
    const leave = await join();
    const leaveToo = await join();
    await decideBatch(home.pool, [shared]);
    for (let n = 1; n <= 40; n += 1) {
      const decidedAt = addSeconds(shared.decidedAt, n);
      await decideBatch(
        home.pool,
        accounts.map((records) => itemFor(records, { decidedAt })),
      );
    }
    await drained();
    const read = await readTopic(world.settings, topics.audit, 12 * 40 + 2);
    for (const records of accounts) {
      const own = read.filter(({ key }) => key === records.accountId);
      expect(own.map(({ value }) => value)).toEqual(await shownTo(records));
      expect(new Set(own.map(({ partition }) => partition)).size).toBe(1);
    }
    expect(new Set(read.map(({ headers }) => headers.ce_id)).size).toBe(read.length);
    const traced = read.filter(({ headers }) => headers.traceparent === TRACE);
    expect(traced.map(({ headers }) => headers.ce_subject).sort()).toEqual(
      [verifier.accountId, prover.accountId].sort(),
    );
    expect(traced[0]?.headers).toMatchObject({
      ce_specversion: "1.0",
      ce_type: "proof.verified",
      ce_time: shared.decidedAt.toISOString(),
      ce_aggregatetype: "account",
      "content-type": "application/json",
    });
    expect(traced[0]?.headers).not.toHaveProperty("ce_sequence");
    await Promise.all([leave(), leaveToo()]);
  });

  /* The row of the open transaction is older, so it must come before the other row. */
  test("contains a row only after older transactions have ended", async () => {
    const records = await insertRecords(home.db, 1e9);
    const decidedAt = addSeconds(systemClock.now(), -10);
    const late = itemFor(records, { decidedAt });
    const row = {
      account_id: records.accountId,
      occurred_at: addSeconds(decidedAt, -1),
      event_id: randomUUID(),
    };
    const open = await home.db.transaction();
    await open("audit_events").insert({
      ...row,
      event_type: "proof.presented",
      connection_id: records.connectionId,
      agent_id: records.agentId,
      cert_id: records.certId,
    });
    await open("history_queue").insert({ ...row, traceparent: null });
    await decideBatch(home.pool, [late]);
    const leave = await join();
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await home.db("history_queue").where({ account_id: records.accountId })).toHaveLength(1);
    await open.commit();
    await drained();
    const own = (await readTopic(world.settings, topics.audit, 12 * 40 + 2 + 2)).filter(
      ({ key }) => key === records.accountId,
    );
    expect(own.map(({ value }) => JSON.parse(value).event_id)).toEqual([row.event_id, late.eventId]);
    await leave();
  });

  test("skips a queued row whose event was deleted", async () => {
    const records = await insertRecords(home.db, 0);
    const row = { account_id: records.accountId, occurred_at: new Date(0), event_id: randomUUID() };
    await home.db("history_queue").insert({ ...row, traceparent: null });
    const leave = await join();
    await drained();
    await leave();
  });
});
