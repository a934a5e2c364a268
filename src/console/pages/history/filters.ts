import type { CallInput } from "../../core/calls.ts";
import type { Visit } from "../../core/page.ts";
import { filtersOf } from "../../elements/listing.ts";

/** The fields of the filter form, which other pages may set by a link. */
export const FILTER_FIELDS = [
  "from",
  "to",
  "result",
  "decision_reason",
  "required_scope",
  "connection_id",
  "agent_id",
  "cert_id",
] as const;

const DAY_MS = 24 * 60 * 60 * 1000;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

type Query = NonNullable<CallInput["query"]>;

/** What an operation of the history is asked, by the fields of the filter form: whole days, in UTC. */
export function askedFor(visit: Visit): Query {
  const { from, to, result, ...rest } = filtersOf(visit, FILTER_FIELDS);
  const presented = result === "presented";
  return {
    ...rest,
    ...(presented ? { event_type: "proof.presented" } : { decision: result }),
    since: from && startOf(from, 0),
    until: to && startOf(to, 1),
  };
}

/** When a day begins, or the one after it. What is no day stays as it is, for the operation to refuse. */
function startOf(day: string, after: number): string {
  const start = DAY.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(start) ? day : new Date(start + after * DAY_MS).toISOString();
}

/** Whether anything narrows the history down. */
export function isNarrowed(visit: Visit): boolean {
  return Object.values(filtersOf(visit, FILTER_FIELDS)).some((value) => value !== undefined);
}
