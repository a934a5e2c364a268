import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { check } from "./check.ts";
import { type Lines, openLines } from "./lines.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-check-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

type Run = { [Name in keyof Lines]: Lines[Name][] };

const entry = (id: string) => JSON.stringify({ event_id: id });

/** Returns a correct run: two events in order, a poison event, and two decisions. */
function goodRun(): Run {
  const got = { connectionId: "c", status: 204, faults: [] };
  const sent = { connectionId: "c", state: "delivered", attempts: 1, lost: [] };
  return {
    appended: [
      { id: "e1", kind: "event", of: "c", outcome: "committed" },
      { id: "e2", kind: "event", of: "c", outcome: "unknown" },
      { id: "e3", kind: "event", of: "c", outcome: "rolled_back" },
      { id: "p1", kind: "poison", of: "c", outcome: "committed" },
      { id: "d1", kind: "decision", of: "a", outcome: "committed" },
      { id: "d2", kind: "decision", of: "a", outcome: "unknown" },
    ],
    received: [
      { ...got, id: "e1", deliveryId: "D1", at: 1 },
      { ...got, id: "e2", deliveryId: "D2", at: 2 },
    ],
    faults: [{ name: "worker killed", from: 100_000, until: 101_000 }],
    deliveries: [
      { ...sent, deliveryId: "D1" },
      { ...sent, deliveryId: "D2" },
    ],
    dead_letters: [{ eventId: "P1", id: "p1", type: "connection.created" }],
    dead_letter_records: [{ eventId: "P1" }],
    history: [
      { accountId: "a", entry: entry("d1") },
      { accountId: "a", entry: entry("d2") },
    ],
    audit: [
      { accountId: "a", recordId: "r1", entry: entry("d1") },
      { accountId: "a", recordId: "r2", entry: entry("d2") },
    ],
  };
}

async function judge(change: (run: Run) => void = () => undefined, options = {}) {
  const run = goodRun();
  change(run);
  for (const [name, lines] of Object.entries(run) as [keyof Lines, never[]][]) {
    const file = openLines(folder, name);
    for (const line of lines) file.write(line);
    await file.close();
  }
  return check(folder, options);
}

test("check() finds no problem in a correct run, and counts its events and requests", async () => {
  expect(await judge()).toEqual({
    events: 1,
    poison: 1,
    decisions: 1,
    faults: { "worker killed": 1 },
    requests: 2,
    extraRequests: 0,
    mostExtraRequests: 0,
    lostAttempts: 0,
    lost: 0,
    invented: 0,
    orderedConnections: 1,
    orderedAccounts: 1,
    repeatedRecords: 0,
    problems: [],
  });
});

test("check() allows a repeated record, and one more request for each attempt that a fault cut off", async () => {
  const report = await judge((run) => {
    run.received.push({ ...(run.received[0] as Lines["received"]), at: 103_000 });
    run.deliveries[0] = {
      ...(run.deliveries[0] as Lines["deliveries"]),
      attempts: 2,
      lost: [{ from: 100_500, until: 102_500 }],
    };
    run.audit.push({ accountId: "a", recordId: "r1", entry: entry("d1") });
  });
  expect(report).toMatchObject({
    problems: [],
    extraRequests: 1,
    mostExtraRequests: 1,
    lostAttempts: 1,
    repeatedRecords: 1,
    orderedConnections: 0,
  });
});

test.each<[string, (run: Run) => void, string]>([
  [
    "a committed event that was never received",
    ({ received }) => void received.shift(),
    "lost: the event e1",
  ],
  [
    "an event that was only refused",
    ({ received }) => Object.assign(received[0] ?? {}, { status: 500 }),
    "lost: the event e1",
  ],
  [
    "an event that was rolled back and received",
    ({ received }) => Object.assign(received[1] ?? {}, { id: "e3" }),
    "invented: e3",
  ],
  [
    "a second delivery id of an event",
    (run) => {
      run.received.push({ ...(run.received[0] as Lines["received"]), deliveryId: "D3" });
      run.deliveries.push({ ...(run.deliveries[0] as Lines["deliveries"]), deliveryId: "D3" });
    },
    "the event e1 has several delivery ids",
  ],
  ["an unknown delivery", ({ deliveries }) => void deliveries.shift(), "D1 is not in the database"],
  [
    "an invalid signature",
    ({ received }) => Object.assign(received[0] ?? {}, { faults: ["signature"] }),
    "D1: signature",
  ],
  [
    "an unfinished delivery",
    ({ deliveries }) => Object.assign(deliveries[0] ?? {}, { state: "held" }),
    "held",
  ],
  [
    "an unexplained second request",
    (run) => void run.received.push({ ...(run.received[0] as Lines["received"]), at: 3 }),
    "D1 was accepted 2 times, 0 cut off",
  ],
  [
    "an attempt that was cut off without a fault",
    ({ deliveries }) => Object.assign(deliveries[0] ?? {}, { lost: [{ from: 200_000, until: 201_000 }] }),
    "cut off without a fault",
  ],
  ["events out of order", ({ received }) => void received.reverse(), "the events of c came out of order"],
  [
    "a decision missing in its history",
    ({ history, audit }) => {
      history.shift();
      audit.shift();
    },
    "lost: the decision d1",
  ],
  [
    "a history entry without a decision",
    (run) => {
      run.history.push({ accountId: "a", entry: entry("d9") });
      run.audit.push({ accountId: "a", recordId: "r9", entry: entry("d9") });
    },
    "invented: d9 is in a history",
  ],
  ["a row missing on the topic", ({ audit }) => void audit.pop(), "lost: d2 is not on the audit topic"],
  [
    "a record without a row",
    ({ audit }) => void audit.push({ accountId: "b", recordId: "r9", entry: entry("d9") }),
    "invented: d9 is on the audit topic",
  ],
  [
    "a history out of order",
    ({ audit }) => void audit.reverse(),
    "the history of a came to its topic out of order",
  ],
  [
    "a poison event that was not put aside",
    ({ dead_letters }) => void dead_letters.pop(),
    "p1 was put aside 0 times",
  ],
  [
    "a poison event that was put aside twice",
    (run) => void run.dead_letters.push({ ...(run.dead_letters[0] as Lines["dead_letters"]) }),
    "p1 was put aside 2 times",
  ],
  [
    "a valid event that was put aside",
    (run) => {
      run.dead_letters.push({ eventId: "E1", id: "e1", type: "delegation.denied" });
      run.dead_letter_records.push({ eventId: "E1" });
    },
    "E1 was put aside and could have been handled",
  ],
  [
    "a dead letter missing on its topic",
    ({ dead_letter_records }) => void dead_letter_records.pop(),
    "P1 was put aside and is not on the topic",
  ],
  [
    "an unreadable record that only one consumer put aside",
    (run) => {
      run.faults.push({ name: "unreadable record", from: 1, until: 2 });
      run.dead_letters.push({ eventId: "U", id: null, type: "unreadable" });
      run.dead_letter_records.push({ eventId: "U" });
    },
    "of 1 unreadable records only 1 are put aside",
  ],
])("check() finds %s", async (_, change, problem) => {
  const { problems } = await judge(change);
  expect(problems.join("\n")).toContain(problem);
});

const withoutTopics = (run: Run) => void Object.assign(run, { audit: [], dead_letter_records: [] });

test("check() reports missing topics with Kafka", async () => {
  expect((await judge(withoutTopics)).problems).not.toEqual([]);
});

test("check() requires no topics without Kafka", async () => {
  expect((await judge(withoutTopics, { kafka: false })).problems).toEqual([]);
});

test("check() finds without Kafka that a decision is missing in the history", async () => {
  const { problems } = await judge(
    (run) => {
      withoutTopics(run);
      run.history.shift();
    },
    { kafka: false },
  );
  expect(problems).toEqual([expect.stringContaining("the decision d1")]);
});
