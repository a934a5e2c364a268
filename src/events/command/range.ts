import { historyEventType } from "../../audit/history_entry.ts";
import { addSeconds } from "../../clock.ts";
import { accountEventKinds } from "../account_kinds.ts";
import { eventKinds } from "../kinds.ts";
import { PUBLISHED_DAYS } from "../retention.ts";
import { readTime, readUuid } from "./input.ts";
import { EventsError } from "./report.ts";

/** Options of `deputize events replay`, as they were typed. */
export type ReplayRangeOptions = {
  from: string;
  to: string;
  topic?: string;
  connection?: string;
  account?: string;
  type?: string;
  dryRun?: boolean;
  json?: boolean;
};

/** What is to be brought again: what happened from one moment until before another. */
export type Range = {
  topic: "lifecycle" | "audit";
  from: Date;
  to: Date;
  connectionId: string | undefined;
  accountId: string | undefined;
  type: string | undefined;
};

const DAY = 24 * 60 * 60;

const types: Record<Range["topic"], readonly string[]> = {
  lifecycle: [...Object.keys(eventKinds), ...Object.keys(accountEventKinds)],
  audit: historyEventType.options,
};

/** The range that was typed. Throws `EventsError`. */
export function readRange({ topic = "lifecycle", type, ...options }: ReplayRangeOptions): Range {
  if (topic !== "lifecycle" && topic !== "audit") {
    throw new EventsError("--topic is neither lifecycle nor audit");
  }
  const [from, to] = [readTime("--from", options.from), readTime("--to", options.to)];
  if (from >= to) throw new EventsError("--to is not after --from");
  if (type !== undefined && !types[topic].includes(type)) {
    throw new EventsError(`--type is none of ${types[topic].join(", ")}`);
  }
  const { connection, account } = options;
  const connectionId = connection === undefined ? undefined : readUuid(connection, "a connection's id");
  const accountId = account === undefined ? undefined : readUuid(account, "an account's id");
  return { topic, from, to, connectionId, accountId, type };
}

/**
 * The part of a range of which events are not kept any more; `null` when there is none. Throws `EventsError`
 * when it is all of it.
 */
export function notKept({ topic, from, to }: Range, now: Date): { from: Date; to: Date } | null {
  const keptSince = addSeconds(now, -PUBLISHED_DAYS * DAY);
  if (topic === "audit" || from >= keptSince) return null;
  if (to > keptSince) return { from, to: keptSince };
  throw new EventsError(
    `Events are kept for ${PUBLISHED_DAYS} days, since ${keptSince.toISOString()}: nothing of this range can be brought again`,
  );
}
