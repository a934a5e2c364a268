import { hash } from "node:crypto";
import type { Change } from "../audit/journal.ts";
import type { AuditEntry } from "../audit/record.ts";
import { recordRefusal } from "../audit/refusals.ts";
import type { LastStatement } from "../audit/register.ts";
import { unixSeconds } from "../clock.ts";
import type { Purpose } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse } from "../errors.ts";
import type { Key } from "../keys/store.ts";
import { admit, type Signed, type SigningCall, type SigningParts, telling } from "./statement.ts";

/** A statement of a sequence before it is signed. `place` is kept with its record, and is what the next one is held against. */
export type NextStatement = { bytes: Uint8Array; place: number };

/** A call whose statements follow one another, for each key in each `stream`. */
export type SequencedCall = Omit<SigningCall, "purpose"> & { purposes: readonly Purpose[]; stream: string };

/** Decides on a statement that follows `last`. `now` is in Unix seconds. */
export type SequenceJudge = (
  key: Key,
  last: LastStatement | undefined,
  now: number,
) => NextStatement | Refusal;

type Granted = { key: Key; bytes: Uint8Array; entry: Omit<AuditEntry, "outcome"> };

/**
 * Signs a statement that follows the one before, or refuses. What came before is the audit's last granted record of the sequence, and this
 * one takes its place in the same turn of the journal, so no two are ever signed for one place. The last statement itself is signed again whenever
 * the judge still takes it, for its answer may have been lost.
 */
export async function signSequenced(
  parts: SigningParts,
  call: SequencedCall,
  judge: SequenceJudge,
): Promise<Signed | Refusal> {
  const { journal, register, custody, clock } = parts;
  const { purposes: _, stream, ...about } = call;
  const unfit = await telling(journal, call, () => admit(parts, call));
  if (unfit !== undefined) return recordRefusal(journal, about, unfit);
  const granted = await journal.change(async (): Promise<Change<Granted | Refusal>> => {
    const key = await usableKey(parts, call);
    if (isRefusal(key)) return { value: key, entry: { ...about, outcome: key.refused } };
    const last = register.lastOf(call);
    const next = judge(key, last, unixSeconds(clock.now()));
    const known = { ...about, purpose: key.purpose };
    if (isRefusal(next)) return { value: next, entry: { ...known, outcome: next.refused } };
    const digest = hash("sha256", next.bytes, "buffer");
    const detail = { ...call.detail, stream, place: String(next.place) };
    const entry = { ...known, digest, detail };
    return { value: { key, bytes: next.bytes, entry }, entry: { ...entry, outcome: "granted" } };
  });
  if (isRefusal(granted)) return granted;
  try {
    return {
      key: granted.key,
      bytes: granted.bytes,
      signature: await custody.sign(granted.key, granted.bytes),
    };
  } catch (error) {
    await journal.record({ ...granted.entry, outcome: "failed" });
    throw error;
  }
}

/** Refuses a place that is not `after` the last one, unless it is the last statement once more. */
export function follows(
  last: LastStatement | undefined,
  next: NextStatement,
  after: (place: number) => boolean,
): NextStatement | Refusal {
  if (last === undefined || after(last.place)) return next;
  const same = next.place === last.place && hash("sha256", next.bytes, "buffer").equals(last.digest);
  return same
    ? next
    : refuse("policy_violation", `The statement does not follow the last one, at ${last.place}`);
}

async function usableKey({ store }: SigningParts, call: SequencedCall): Promise<Key | Refusal> {
  const key = await store.find(call.keyId, call.tenant);
  if (key === undefined) return refuse("key_not_found");
  if (!call.purposes.includes(key.purpose))
    return refuse("purpose_mismatch", `The key's purpose is ${key.purpose}`);
  return key.state === "active" && key.tenantState === "active" ? key : refuse("key_disabled");
}
