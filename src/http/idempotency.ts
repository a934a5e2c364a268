import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { addSeconds, type Clock } from "../clock.ts";
import { createSingleFlight } from "../concurrency/single_flight.ts";
import type { Database } from "../db/database.ts";
import type { IdempotencyKeyRow } from "../db/tables.ts";
import { describeFault } from "../describe_fault.ts";
import { ApiError } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Logger } from "../log.ts";
import type { SecretBox } from "../secret_box.ts";
import { VaultRefused, VaultUnavailable } from "../vault/transport.ts";

/** Seconds a first answer is kept. */
export const IDEMPOTENCY_SECONDS = 24 * 60 * 60;
/**
 * Seconds after which a run whose end is not known may be taken over: its process died, or it failed
 * half-way.
 */
export const RUN_SECONDS = 60;
/** Seconds a first answer that shows a secret is kept. */
export const SECRET_SECONDS = 10 * 60;
const WAIT_MS = 10_000;
/** How often a process asks whether a run in another one has ended, at first and in the end. */
const POLL_MS = 50;
const SLOWEST_POLL_MS = 500;
/** Calls with one key that may wait in a process for the first one. */
const MOST_WAITING = 8;
/** An answer of which nothing is left but that there was one. */
const EMPTIED = Buffer.alloc(0);

/**
 * One call that carries an `Idempotency-Key`. `caller` is who called for the account: `person`, or a
 * connection's id. What was answered to one of them is given to no other. `bodyHash` is of all that makes the
 * call this one. `secretFor` is the sign-in that an answer which shows a secret is kept for; absent when the
 * answer shows none.
 */
export type KeyedCall = {
  accountId: string;
  caller: string;
  routeId: string;
  key: string;
  bodyHash: Buffer;
  secretFor?: string;
};

/** The part of an answer that a repetition gives again. */
export type KeptAnswer = { status: number; body: unknown; headers: Record<string, string> };

/** Runs keyed calls once. */
export type Idempotency = {
  /**
   * The answer of `run`, or of the first call with this key. Calls that arrive while the first one runs wait
   * for it. Only successes are kept: a refusal changed nothing, so the call may be tried again. Kept answers
   * are sealed, since they may show secrets. Throws `idempotency_conflict` when the key was used with another
   * body within 24 hours, when the first call is still running after 10 seconds, and when eight wait for it.
   *
   * An answer that shows a secret is kept for `SECRET_SECONDS` and for the same sign-in; any other repetition
   * within 24 hours throws `answer_not_kept` and does nothing.
   *
   * When it is not known whether anything was changed, the key stays locked for `RUN_SECONDS`: the process
   * died, or the run failed otherwise than by a refusal, for instance because the database went away around
   * the commit. Repetitions are `idempotency_conflict` until then; the call then runs once more.
   */
  once(call: KeyedCall, run: () => Promise<KeptAnswer>): Promise<{ answer: KeptAnswer; replayed: boolean }>;
  /** Forgets answers older than 24 hours. */
  sweep(): Promise<void>;
  /** Empties answers whose secrets are no longer given. */
  forgetSecrets(): Promise<void>;
};

/** The form of an `Idempotency-Key`: 1–255 printable ASCII characters. */
export const idempotencyKey = z
  .string()
  .regex(/^[!-~]{1,255}$/, "must be 1 to 255 printable ASCII characters");

type IdempotencyDeps = { db: Database; secretBox: SecretBox; clock: Clock; log: Logger };

/** Idempotency kept in the database, so that it holds across replicas. */
export function createIdempotency({ db, secretBox, clock, log }: IdempotencyDeps): Idempotency {
  const flights = createSingleFlight<{ answer: KeptAnswer; replayed: boolean }>({
    mostWaiting: MOST_WAITING,
    waitMs: WAIT_MS,
    full: tooManyWait,
    late: stillRunning,
  });
  /** The call itself is over by then, and its caller has the answer. */
  const forgotten = (error: unknown) =>
    log.warn({ fault: describeFault(error) }, "an idempotency key stays locked");
  return {
    async once(call, run) {
      const { outcome, shared } = await flights.run(sameOf(call), ({ waitsUntil }) =>
        first(call, run, waitsUntil),
      );
      return shared ? { ...outcome, replayed: true } : outcome;
    },
    async sweep() {
      await db("idempotency_keys").where("created_at", "<=", oldest(clock.now())).delete();
    },
    async forgetSecrets() {
      await db("idempotency_keys")
        .where("secret_until", "<=", clock.now())
        .whereRaw("octet_length(answer_sealed) > 0")
        .update({ answer_sealed: EMPTIED });
    },
  };

  /** The only one in this process that has such a call. */
  async function first(call: KeyedCall, run: () => Promise<KeptAnswer>, waitsUntil: number) {
    const begun = await begin(call, waitsUntil);
    if (begun.kind === "answered") return { answer: begun.answer, replayed: true };
    const answer = await run().catch(async (error: unknown) => {
      if (didNothing(error)) await release(call, begun.runId).catch(forgotten);
      throw error;
    });
    await keep(call, begun.runId, answer).catch(forgotten);
    return { answer, replayed: false };
  }

  async function begin(
    call: KeyedCall,
    waitsUntil: number,
  ): Promise<{ kind: "run"; runId: string } | { kind: "answered"; answer: KeptAnswer }> {
    const runId = newId();
    let pollMs = POLL_MS;
    for (let isFree = true; ; pollMs = Math.min(pollMs * 1.5, SLOWEST_POLL_MS)) {
      if (isFree && (await take(call, runId))) return { kind: "run", runId };
      const kept = await keptAnswer(call);
      if (typeof kept === "object") return { kind: "answered", answer: kept };
      if (performance.now() >= waitsUntil) throw stillRunning();
      isFree = kept === "free";
      if (!isFree) await sleep(pollMs);
    }
  }

  /**
   * Takes the key when it is free: never used, used too long ago, or left by a run that has ended without an
   * answer.
   */
  async function take(call: KeyedCall, runId: string): Promise<boolean> {
    const now = clock.now();
    const { rowCount } = await db.raw(
      `insert into idempotency_keys as kept (account_id, caller, route_id, key, body_hash, run_id, locked_until, created_at)
       values (:accountId, :caller, :routeId, :key, :bodyHash, :runId, :lockedUntil, :now)
       on conflict (account_id, caller, route_id, key) do update
       set body_hash = excluded.body_hash, run_id = excluded.run_id, locked_until = excluded.locked_until,
           created_at = excluded.created_at, answer_sealed = null, session_family = null, secret_until = null
       where kept.created_at <= :oldest
          or (kept.answer_sealed is null and kept.locked_until <= :now and kept.body_hash = excluded.body_hash)`,
      { ...namesOf(call), runId, now, lockedUntil: addSeconds(now, RUN_SECONDS), oldest: oldest(now) },
    );
    return rowCount === 1;
  }

  /** The kept answer; or whether the key is free to be taken, or has a run that may still end. */
  async function keptAnswer(call: KeyedCall): Promise<KeptAnswer | "free" | "running"> {
    const now = clock.now();
    const row = await db("idempotency_keys").where(rowOf(call)).first();
    if (row === undefined) return "free";
    if (!row.body_hash.equals(call.bodyHash)) throw new ApiError("idempotency_conflict");
    if (row.secret_until !== null && !maySeeSecret(row, call, now)) {
      throw new ApiError("answer_not_kept");
    }
    if (row.answer_sealed === null) return row.locked_until <= now ? "free" : "running";
    return JSON.parse(secretBox.unbox(row.answer_sealed, contextOf(call)));
  }

  async function keep(call: KeyedCall, runId: string, answer: KeptAnswer): Promise<void> {
    await db("idempotency_keys")
      .where({ ...rowOf(call), run_id: runId })
      .update({
        answer_sealed: secretBox.box(JSON.stringify(answer), contextOf(call)),
        session_family: call.secretFor ?? null,
        secret_until: call.secretFor === undefined ? null : addSeconds(clock.now(), SECRET_SECONDS),
      });
  }

  async function release(call: KeyedCall, runId: string): Promise<void> {
    await db("idempotency_keys")
      .where({ ...rowOf(call), run_id: runId })
      .delete();
  }
}

/** By what calls are the same one, and may have one answer. */
function sameOf(call: KeyedCall): string {
  return JSON.stringify([contextOf(call), call.bodyHash.toString("base64"), call.secretFor]);
}

function stillRunning(): ApiError {
  return new ApiError(
    "idempotency_conflict",
    "The first call with this key is still running or failed; try again in a minute",
  );
}

function tooManyWait(): ApiError {
  return new ApiError(
    "idempotency_conflict",
    `The first call with this key is still running, and ${MOST_WAITING} wait for it; try again once it has answered`,
  );
}

/**
 * Whether an answer with a secret is still given: to the sign-in that it was given to, for `SECRET_SECONDS`.
 */
function maySeeSecret(row: IdempotencyKeyRow, { secretFor }: KeyedCall, now: Date): boolean {
  return row.session_family === secretFor && row.secret_until !== null && row.secret_until > now;
}

/** Refusals, also the vault's, happen before anything is stored. */
function didNothing(error: unknown): boolean {
  return error instanceof ApiError || error instanceof VaultUnavailable || error instanceof VaultRefused;
}

function rowOf({ accountId, caller, routeId, key }: KeyedCall) {
  return { account_id: accountId, caller, route_id: routeId, key };
}

/** What the statement that takes a key names of it. */
function namesOf({ accountId, caller, routeId, key, bodyHash }: KeyedCall) {
  return { accountId, caller, routeId, key, bodyHash };
}

function contextOf({ accountId, caller, routeId, key }: KeyedCall): string {
  return `idempotency_keys:${accountId}:${caller}:${routeId}:${key}`;
}

function oldest(now: Date): Date {
  return addSeconds(now, -IDEMPOTENCY_SECONDS);
}
