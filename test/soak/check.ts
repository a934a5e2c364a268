import { type Lines, readLines } from "./lines.ts";

/** The result of a run. A good run has no problems. */
export type Report = {
  events: number;
  poison: number;
  decisions: number;
  /** How many faults of each kind were inflicted. */
  faults: Record<string, number>;
  requests: number;
  /** Requests repeated after their delivery was accepted: the total, and the most for one delivery. */
  extraRequests: number;
  mostExtraRequests: number;
  lostAttempts: number;
  lost: number;
  invented: number;
  /** Connections and accounts whose order could be compared. */
  orderedConnections: number;
  orderedAccounts: number;
  repeatedRecords: number;
  problems: string[];
};

/** A fault explains attempts up to this many milliseconds before or after it, since two clocks are used. */
const MARGIN_MS = 2_000;
const MOST_PROBLEMS = 20;

/** Checks a run only by the files in its folder. Without Kafka, compares no topics. */
export function check(folder: string, { kafka = true }: { kafka?: boolean } = {}): Report {
  const run = readRun(folder);
  const events = checkEvents(run);
  const requests = checkRequests(run);
  const history = checkHistory(run, kafka);
  const poison = checkPoison(run, kafka);
  const problems = [...events.problems, ...requests.problems, ...history.problems, ...poison];
  return {
    events: events.committed,
    poison: run.appended.filter(({ kind, outcome }) => kind === "poison" && outcome === "committed").length,
    decisions: history.committed,
    faults: countBy(run.faults, ({ name }) => name),
    requests: run.received.length,
    extraRequests: requests.extra,
    mostExtraRequests: requests.most,
    lostAttempts: run.deliveries.reduce((sum, { lost }) => sum + lost.length, 0),
    lost: events.lost + history.lost,
    invented: events.invented + history.invented,
    orderedConnections: requests.ordered,
    orderedAccounts: history.ordered,
    repeatedRecords: history.repeated,
    problems: problems.slice(0, MOST_PROBLEMS),
  };
}

type Run = { [Name in keyof Lines]: Lines[Name][] };

function readRun(folder: string): Run {
  return {
    appended: readLines(folder, "appended"),
    received: readLines(folder, "received"),
    faults: readLines(folder, "faults"),
    deliveries: readLines(folder, "deliveries"),
    dead_letters: readLines(folder, "dead_letters"),
    dead_letter_records: readLines(folder, "dead_letter_records"),
    history: readLines(folder, "history"),
    audit: readLines(folder, "audit"),
  };
}

/** Checks that nothing is lost or invented, each event has one delivery id, and all signatures are valid. */
function checkEvents({ appended, received, deliveries }: Run) {
  const own = appended.filter(({ kind }) => kind === "event");
  const accepted = new Set(received.filter(({ status }) => status === 204).map(({ id }) => id));
  const possible = new Set(own.filter(({ outcome }) => outcome !== "rolled_back").map(({ id }) => id));
  const committed = own.filter(({ outcome }) => outcome === "committed");
  const lost = committed.filter(({ id }) => !accepted.has(id));
  const invented = received.filter(({ id }) => !possible.has(id));
  const ids = Map.groupBy(received, ({ id }) => id);
  const doubled = [...ids].filter(([, all]) => new Set(all.map(({ deliveryId }) => deliveryId)).size > 1);
  const known = new Set(deliveries.map(({ deliveryId }) => deliveryId));
  return {
    committed: committed.length,
    lost: lost.length,
    invented: invented.length,
    problems: [
      ...lost.map(({ id }) => `lost: the event ${id} was committed and never accepted`),
      ...invented.map(({ id }) => `invented: ${id} was received and not appended`),
      ...doubled.map(([id]) => `the event ${id} has several delivery ids`),
      ...received
        .filter(({ deliveryId }) => !known.has(deliveryId))
        .map(({ deliveryId }) => `the delivery ${deliveryId} is not in the database`),
      ...received.flatMap(({ deliveryId, faults }) =>
        faults.map((fault) => `wrong in a request of ${deliveryId}: ${fault}`),
      ),
      ...deliveries
        .filter(({ state }) => state !== "delivered")
        .map(({ deliveryId, state }) => `the delivery ${deliveryId} is ${state}`),
    ],
  };
}

/**
 * Checks that each attempt that a fault cut off explains at most one additional accepted request, and that no
 * other attempt was cut off. Checks the order of requests for connections without retries and faults.
 */
function checkRequests({ received, deliveries, faults }: Run) {
  const accepted = Map.groupBy(
    received.filter(({ status }) => status === 204),
    ({ deliveryId }) => deliveryId,
  );
  const extras = deliveries.map((delivery) => ({
    ...delivery,
    extra: Math.max(0, (accepted.get(delivery.deliveryId)?.length ?? 0) - 1),
  }));
  const isHit = ({ from, until }: { from: number; until: number }) =>
    faults.some((fault) => fault.from - MARGIN_MS <= until && from <= fault.until + MARGIN_MS);
  const calm = [...Map.groupBy(deliveries, ({ connectionId }) => connectionId)].filter(
    ([, all]) => all.length > 1 && all.every(({ attempts }) => attempts === 1),
  );
  const requestsOf = Map.groupBy(received, ({ connectionId }) => connectionId);
  const disordered = calm.filter(([connectionId, all]) => {
    const seen = (requestsOf.get(connectionId) ?? []).map(({ deliveryId }) => deliveryId);
    return seen.join() !== all.map(({ deliveryId }) => deliveryId).join();
  });
  return {
    extra: extras.reduce((sum, { extra }) => sum + extra, 0),
    most: Math.max(0, ...extras.map(({ extra }) => extra)),
    ordered: calm.length,
    problems: [
      ...extras
        .filter(({ extra, lost }) => extra > lost.length)
        .map(
          ({ deliveryId, extra, lost }) =>
            `${deliveryId} was accepted ${extra + 1} times, ${lost.length} cut off`,
        ),
      ...deliveries
        .filter(({ lost }) => !lost.every(isHit))
        .map(({ deliveryId }) => `an attempt of ${deliveryId} was cut off without a fault`),
      ...disordered.map(([connectionId]) => `the events of ${connectionId} came out of order`),
    ],
  };
}

/** Checks that decisions, histories and the audit topic have the same rows, in each account's order. */
function checkHistory({ appended, history, audit }: Run, kafka: boolean) {
  const decisions = appended.filter(({ kind }) => kind === "decision");
  const kept = new Set(history.map(({ entry }) => idOf(entry)));
  const possible = new Set(decisions.filter(({ outcome }) => outcome !== "rolled_back").map(({ id }) => id));
  const committed = decisions.filter(({ outcome }) => outcome === "committed");
  const forgotten = committed.filter(({ id }) => !kept.has(id));
  const strange = [...kept].filter((id) => !possible.has(id));
  const topics = Map.groupBy(audit, ({ accountId }) => accountId);
  const accounts = Map.groupBy(history, ({ accountId }) => accountId);
  const problems = [
    ...forgotten.map(({ id }) => `lost: the decision ${id} was committed and is in no history`),
    ...strange.map((id) => `invented: ${id} is in a history and was not decided`),
  ];
  let [lost, invented, repeated] = [forgotten.length, strange.length, 0];
  for (const accountId of kafka ? new Set([...accounts.keys(), ...topics.keys()]) : []) {
    const own = (accounts.get(accountId) ?? []).map(({ entry }) => entry);
    const records = topics.get(accountId) ?? [];
    const seen = [...new Map(records.map(({ recordId, entry }) => [recordId, entry])).values()];
    repeated += records.length - seen.length;
    const [there, here] = [new Set(seen), new Set(own)];
    const missing = own.filter((entry) => !there.has(entry));
    const surplus = seen.filter((entry) => !here.has(entry));
    lost += missing.length;
    invented += surplus.length;
    problems.push(...missing.map((entry) => `lost: ${idOf(entry)} is not on the audit topic`));
    problems.push(...surplus.map((entry) => `invented: ${idOf(entry)} is on the audit topic`));
    if (missing.length === 0 && surplus.length === 0 && seen.join("\n") !== own.join("\n")) {
      problems.push(`the history of ${accountId} came to its topic out of order`);
    }
  }
  return {
    committed: committed.length,
    lost,
    invented,
    repeated,
    ordered: kafka ? [...accounts.values()].filter((entries) => entries.length > 1).length : 0,
    problems,
  };
}

/** Checks that exactly the poison events became dead letters, once each, also on the dead-letter topic. */
function checkPoison(
  { appended, dead_letters: letters, dead_letter_records: records, faults }: Run,
  kafka: boolean,
): string[] {
  const poison = appended.filter(({ kind }) => kind === "poison");
  const aside = countBy(letters, ({ id }) => id ?? "");
  const possible = new Set(poison.filter(({ outcome }) => outcome !== "rolled_back").map(({ id }) => id));
  const carried = new Set(records.map(({ eventId }) => eventId));
  const unreadable = letters.filter(({ type }) => type === "unreadable").length;
  const written = faults.filter(({ name }) => name === "unreadable record").length;
  return [
    ...poison
      .filter(({ id, outcome }) => outcome === "committed" && aside[id] !== 1)
      .map(({ id }) => `the poison event ${id} was put aside ${aside[id] ?? 0} times`),
    ...letters
      .filter(({ id, type }) => type !== "unreadable" && !possible.has(id ?? ""))
      .map(({ eventId }) => `${eventId} was put aside and could have been handled`),
    ...letters
      .filter(({ eventId }) => kafka && !carried.has(eventId))
      .map(({ eventId }) => `${eventId} was put aside and is not on the topic of dead letters`),
    ...(unreadable >= written * CONSUMERS
      ? []
      : [`of ${written} unreadable records only ${unreadable} are put aside by ${CONSUMERS} consumers`]),
  ];
}

/** Each consumer stores a separate dead letter for an unreadable record. */
const CONSUMERS = 2;

function idOf(entry: string): string {
  return JSON.parse(entry).event_id;
}

function countBy<T>(all: readonly T[], nameOf: (one: T) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const one of all) counts[nameOf(one)] = (counts[nameOf(one)] ?? 0) + 1;
  return counts;
}
