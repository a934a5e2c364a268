import { setTimeout as sleep } from "node:timers/promises";

/** The relevant part of an answer. */
export type Answer = { status: number; headers: Headers; text: string };

/** Counts of the attempts in a run. `wrong` lists answers that no application should have to handle. */
export type Tally = { answered: number; unavailable: number; cut: number; locked: number; wrong: string[] };

/** Limit for repeating a call. A pod's return, a Postgres election and a lock's expiry take less. */
const GIVE_UP_MS = 120_000;
const PAUSE_MS = 200;

export function newTally(): Tally {
  return { answered: 0, unavailable: 0, cut: 0, locked: 0, wrong: [] };
}

/**
 * Repeats a call until it is answered, as a careful application does: after a 503 with Retry-After, after an
 * interrupted connection, and while an idempotency key is locked. A key remains locked for a minute if the
 * process that used it died. Records any other 5xx, and a 503 without Retry-After, as wrong, and repeats the
 * call too. Rejects after two minutes.
 */
export async function insist<A extends Answer>(
  what: string,
  tally: Tally,
  call: () => Promise<A>,
): Promise<A> {
  const end = performance.now() + GIVE_UP_MS;
  for (;;) {
    const answer = await call().catch((error: unknown) => reasonOf(error));
    if (typeof answer !== "string" && answer.status < 500 && !isLocked(answer)) {
      tally.answered += 1;
      return answer;
    }
    if (typeof answer === "string") tally.cut += 1;
    else if (isLocked(answer)) tally.locked += 1;
    else if (answer.status === 503 && answer.headers.has("retry-after")) tally.unavailable += 1;
    else tally.wrong.push(`${what} answered ${answer.status}: ${answer.text.slice(0, 200)}`);
    if (performance.now() > end) {
      throw new Error(`${what}: no answer for ${GIVE_UP_MS} ms, ${said(answer)} at last`);
    }
    await sleep(PAUSE_MS);
  }
}

function isLocked({ status, text }: Answer): boolean {
  return status === 409 && text.includes('"idempotency_conflict"');
}

function said(answer: Answer | string): string {
  return typeof answer === "string" ? answer : `${answer.status} ${answer.text.slice(0, 200)}`;
}

function reasonOf(error: unknown): string {
  const { cause, message } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

export function described({ answered, unavailable, cut, locked, wrong }: Tally): string {
  return `${answered} answered, ${unavailable} times 503 with Retry-After, ${cut} connections cut, ${locked} times a key locked, ${wrong.length} wrong`;
}
