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

/** Seconds for which the answer to a key's first call is kept. */
export const IDEMPOTENCY_SECONDS = 24 * 60 * 60;
/** Seconds for which a key stays locked if its run's result is unknown. */
export const RUN_SECONDS = 60;
/** Seconds for which an answer that contains a secret is kept. */
export const SECRET_SECONDS = 10 * 60;
const WAIT_MS = 10_000;
/** The first and the longest interval, in milliseconds, at which a process polls a run in another process. */
const POLL_MS = 50;
const SLOWEST_POLL_MS = 500;
/** How many calls with the same key may wait in one process for the first call. */
const MOST_WAITING = 8;
/** Replaces an answer whose content was removed. */
const EMPTIED = Buffer.alloc(0);

/**
 * One call with an `Idempotency-Key`.
 * - `caller` is `person`, a member's account id, or a connection's id. An answer to one caller is never
 *   returned to a different caller.
 * - `bodyHash` covers everything that distinguishes this call from other calls with the same key.
 * - `secretFor` identifies the sign-in, or the connection of a full API key, that may receive a secret again.
 *   Absent if the answer contains none.
 */
export type KeyedCall = {
  accountId: string;
  caller: string;
  routeId: string;
  key: string;
  bodyHash: Buffer;
  secretFor?: string;
};

/** The stored part of an answer, which a repeated call receives again. */
export type KeptAnswer = { status: number; body: unknown; headers: Record<string, string> };

/** Runs each call with an `Idempotency-Key` only once. */
export type Idempotency = {
  /**
   * Returns the answer of `run`, or the stored answer of the first call with this key. Calls that arrive
   * while the first call runs wait for its answer. Stores only successful answers: a refusal changed nothing,
   * so the call may be repeated. Stored answers are encrypted, because they may contain secrets.
   *
   * Throws `idempotency_conflict` if the key was used with a different body within 24 hours, if the first
   * call is still running after 10 seconds, or if eight calls already wait for the first call.
   *
   * An answer with a secret is kept for `SECRET_SECONDS` and only for the same sign-in. Any other repetition
   * within 24 hours throws `answer_not_kept` and changes nothing.
   *
   * The key stays locked for `RUN_SECONDS` if it is not known whether anything was changed: the process died,
   * or the run failed without a refusal. Until then, repetitions throw `idempotency_conflict`. Afterwards, a
   * repetition runs the call again.
   */
  once(call: KeyedCall, run: () => Promise<KeptAnswer>): Promise<{ answer: KeptAnswer; replayed: boolean }>;
  /** Deletes answers that are older than 24 hours at `now`. */
  sweep(now: Date): Promise<void>;
  /** Empties stored answers whose secrets may no longer be returned at `now`. */
  forgetSecrets(now: Date): Promise<void>;
};

/** The schema of an `Idempotency-Key`: 1–255 printable ASCII characters. */
export const idempotencyKey = z
  .string()
  .regex(/^[!-~]{1,255}$/, "must be 1 to 255 printable ASCII characters");

type IdempotencyDeps = { db: Database; secretBox: SecretBox; clock: Clock; log: Logger };

/** Creates an idempotency store in the database, so that all replicas share it. */
export function createIdempotency({ db, secretBox, clock, log }: IdempotencyDeps): Idempotency {
  const flights = createSingleFlight<{ answer: KeptAnswer; replayed: boolean }>({
    mostWaiting: MOST_WAITING,
    waitMs: WAIT_MS,
    full: tooManyWait,
    late: stillRunning,
  });
  /** Logs that a key could not be updated, without failing the call. */
  const forgotten = (error: unknown) =>
    log.warn({ fault: describeFault(error) }, "an idempotency key stays locked");
  return {
    async once(call, run) {
      const { outcome, shared } = await flights.run(sameOf(call), ({ waitsUntil }) =>
        first(call, run, waitsUntil),
      );
      return shared ? { ...outcome, replayed: true } : outcome;
    },
    async sweep(now) {
      await db("idempotency_keys").where("created_at", "<=", oldest(now)).delete();
    },
    async forgetSecrets(now) {
      await db("idempotency_keys")
        .where("secret_until", "<=", now)
        .whereRaw("octet_length(answer_sealed) > 0")
        .update({ answer_sealed: EMPTIED });
    },
  };

  /** Runs a call, or waits for its answer from another process. */
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
   * Locks the key for a run and returns true, or returns false if the key is in use. A key is free if it was
   * never used, if its answer is too old, or if its run left no answer and its lock expired.
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
      { ...parametersOf(call), runId, now, lockedUntil: addSeconds(now, RUN_SECONDS), oldest: oldest(now) },
    );
    return rowCount === 1;
  }

  /** Returns the stored answer, "free" if the key can be locked, or "running" if its run may still finish. */
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
    `The first call with this key is still running, and ${MOST_WAITING} calls wait for it; try again once it has answered`,
  );
}

/** An answer with a secret is returned again only to the same sign-in, for `SECRET_SECONDS`. */
function maySeeSecret(row: IdempotencyKeyRow, { secretFor }: KeyedCall, now: Date): boolean {
  return row.session_family === secretFor && row.secret_until !== null && row.secret_until > now;
}

/** Checks whether an error is a refusal by the API or the vault. A refused call has stored nothing. */
function didNothing(error: unknown): boolean {
  return error instanceof ApiError || error instanceof VaultUnavailable || error instanceof VaultRefused;
}

function rowOf({ accountId, caller, routeId, key }: KeyedCall) {
  return { account_id: accountId, caller, route_id: routeId, key };
}

function parametersOf({ accountId, caller, routeId, key, bodyHash }: KeyedCall) {
  return { accountId, caller, routeId, key, bodyHash };
}

function contextOf({ accountId, caller, routeId, key }: KeyedCall): string {
  return `idempotency_keys:${accountId}:${caller}:${routeId}:${key}`;
}

function oldest(now: Date): Date {
  return addSeconds(now, -IDEMPOTENCY_SECONDS);
}
