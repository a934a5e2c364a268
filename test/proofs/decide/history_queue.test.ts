import { afterEach, beforeEach, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { decideBatch } from "../../../src/proofs/decide/decision.ts";
import { prunePresented } from "../../../src/proofs/prune.ts";
import { acceptPrincipal } from "../../support/accepted_principals.ts";
import { decisionWorld } from "../decision_world.ts";
import { insertRecords, itemFor, type Records } from "../records.ts";

const world = decisionWorld();
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const take = (way: "embedded" | "kafka") => world.db("event_way").update({ way });
const queued = ({ accountId }: Records) =>
  world.db("history_queue").where({ account_id: accountId }).select("event_id", "occurred_at", "traceparent");

beforeEach(() => take("kafka"));
afterEach(() => take("embedded"));

test("a decision queues history rows for both accounts involved, with its trace", async () => {
  const verifier = await insertRecords(world.db, 1e9);
  const prover = await insertRecords(world.db, 0);
  await acceptPrincipal(world.db, verifier, prover, { created_at: new Date() });
  const item = itemFor(verifier, {
    rootAccountId: prover.accountId,
    humanId: prover.humanId,
    certificates: [{ accountId: prover.accountId, certId: prover.certId }],
    traceparent: TRACE,
  });
  await decideBatch(world.pool, [item]);
  const row = { event_id: item.eventId, occurred_at: item.decidedAt, traceparent: TRACE };
  expect(await queued(verifier)).toEqual([row]);
  expect(await queued(prover)).toEqual([row]);
});

test("a decision on the verifier's own authority is queued once, and a refused proof results in no queued row", async () => {
  const records = await insertRecords(world.db, 1e9);
  const item = itemFor(records);
  await decideBatch(world.pool, [item]);
  await decideBatch(world.pool, [{ ...itemFor(records), challenge: item.challenge }]);
  expect((await queued(records)).map(({ event_id }) => event_id)).toEqual([item.eventId]);
});

test("a decision about a root that belongs to no account is queued for the verifier only", async () => {
  const records = await insertRecords(world.db, 1e9);
  await decideBatch(world.pool, [
    itemFor(records, { rootAccountId: null, decision: "deny", reason: "untrusted_root", certificates: [] }),
  ]);
  expect(await queued(records)).toHaveLength(1);
});

test("a decision is not queued while the worker itself delivers the events", async () => {
  await take("embedded");
  const records = await insertRecords(world.db, 1e9);
  await decideBatch(world.pool, [itemFor(records)]);
  expect(await queued(records)).toEqual([]);
});

test("a presented proof is kept until the audit topic contains it", async () => {
  const records = await insertRecords(world.db, 0);
  const { accountId, connectionId, agentId, certId } = records;
  const { eventId, decidedAt: occurredAt } = itemFor(records);
  const key = { account_id: accountId, occurred_at: occurredAt, event_id: eventId };
  await world.db("audit_events").insert({
    ...key,
    event_type: "proof.presented",
    connection_id: connectionId,
    agent_id: agentId,
    cert_id: certId,
  });
  await world.db("history_queue").insert({ ...key, traceparent: null });
  const prune = () => prunePresented({ db: world.db, now: addSeconds(occurredAt, 3600) });
  expect(await prune()).toBe(0);
  await world.db("history_queue").where(key).delete();
  expect(await prune()).toBe(1);
});
