import type { Visit } from "../../core/page.ts";
import { queryMoments, sayWrong } from "../../elements/forms/moment_field.ts";

/** The form in which a range is asked for, by which its fields are named. */
export const WISH = "wish";
/** States of which deliveries can be sent again by their range. */
export const STATES = ["failed", "rejected", "blocked", "delivered"] as const;
/** Deliveries of a state that are counted beforehand. */
const MOST_COUNTED = 100;

export type Recoverable = (typeof STATES)[number];

/** What is to be sent again. */
export type Wish = { since: Date; until: Date; states: Recoverable[] };

/** Whether the page's address asks for a range. */
export function hasAsked({ query }: Visit): boolean {
  return query.look !== undefined;
}

/** The range that the page's address asks for. What is wrong with it is said at its field, and it is none. */
export function readWish(visit: Visit): Wish | undefined {
  const { now, query, texts } = visit;
  const words = texts.recoveries;
  const moments = queryMoments(visit, { form: WISH, names: ["since", "until"] });
  const until = moments.until === undefined ? now : new Date(moments.until);
  const since = new Date(moments.since ?? "");
  const end = new Date(Math.min(until.getTime(), now.getTime()));
  const states = STATES.filter((state) => query[state] === "on");
  const isEmpty = moments.since !== undefined && since >= end;
  const faults: [string, string | undefined | false][] = [
    ["since", !query.since && words.noFrom],
    ["since", isEmpty && words.empty],
    ["states", states.length === 0 && words.noState],
  ];
  for (const [name, fault] of faults) if (fault) sayWrong(visit, { form: WISH, name }, fault);
  return visit.failure?.form !== WISH ? { since, until: end, states } : undefined;
}

/** How many deliveries each state of a wish has, counted up to a page of them. */
export async function countWish({ call, params }: Visit, { since, until, states }: Wish) {
  const { connection_id = "" } = params;
  return Promise.all(
    states.map(async (state) => {
      const { items, next_cursor } = await call("list_deliveries", {
        params: { connection_id },
        query: {
          state,
          since: since.toISOString(),
          until: until.toISOString(),
          limit: String(MOST_COUNTED),
        },
      });
      return { state, count: items.length, isMore: next_cursor !== null };
    }),
  );
}
