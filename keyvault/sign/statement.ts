import { hash } from "node:crypto";
import type { HybridSignature } from "../../src/protocol/keys/hybrid.ts";
import { type Journal, recordRefusal } from "../audit/journal.ts";
import type { Register } from "../audit/last_states.ts";
import type { AuditEntry, Caller, StatementKind } from "../audit/record.ts";
import { type Clock, unixSeconds } from "../clock.ts";
import type { SigningRates } from "../config.ts";
import type { Purpose } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import type { Custody } from "../keys/custody.ts";
import type { Key, KeyStore, Reading } from "../keys/store.ts";
import type { Rates } from "../rates.ts";

/**
 * Seconds by which a time in a statement may differ from the vault's clock, either way, both ends included.
 */
export const CLOCK_TOLERANCE_SECONDS = 60;

/** Refuses a time in a statement that is too far from `now`, both in Unix seconds. */
export function clockRefusal(field: string, time: number, now: number): Refusal | undefined {
  if (Math.abs(now - time) <= CLOCK_TOLERANCE_SECONDS) return undefined;
  return refuse(
    "policy_violation",
    `${field} is more than ${CLOCK_TOLERANCE_SECONDS} s away from the vault's clock`,
  );
}

/** What signing needs. */
export type SigningParts = {
  store: KeyStore;
  custody: Custody;
  journal: Journal;
  register: Pick<Register, "lastList">;
  clock: Clock;
  rates: Rates;
  signingRates: SigningRates;
};

/** The key a caller names, for a tenant it names, for one kind of statement. */
export type SigningCall = {
  caller: Caller;
  keyId: string;
  tenant: string;
  purpose: Purpose;
  statement: StatementKind;
  /** What the statement is about, for the audit. */
  detail: Readonly<Record<string, string>>;
};

/**
 * Decides on the statement and builds its bytes: the only source of bytes that are ever signed. `now` is in
 * Unix seconds; other keys that the decision rests on are looked for in `reading`.
 */
export type BuildBytes = (key: Key, now: number, reading: Reading) => Promise<Uint8Array | Refusal>;

/**
 * Writes the record of a statement that is signed, and returns whether it did: not if `stillTrue` answers
 * false when its turn arrives.
 */
export type Grant = (entry: AuditEntry, stillTrue: () => boolean) => Promise<boolean>;

/** A signature and the key it was made with. */
export type Signed = { key: Key; signature: HybridSignature; bytes: Uint8Array };

const ATTEMPTS = 5;

/**
 * Signs a statement with both halves, or refuses. The signature is made while its audit record is written,
 * and leaves only when the record is durable. When a key that the decision rests on changed in between, it is
 * decided again: the recorded decision rests on current keys. After five times that is given up, on record as
 * `failed`, with `VaultError unavailable`.
 */
export async function signStatement(
  parts: SigningParts,
  call: SigningCall,
  build: BuildBytes,
  grant: Grant = parts.journal.record,
): Promise<Signed | Refusal> {
  const { store, custody, journal, clock } = parts;
  const unfit = await telling(journal, call, () => admit(parts, call));
  if (unfit !== undefined) return recordRefusal(journal, call, unfit);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const reading = store.reading();
    const key = await reading.find(call.keyId, call.tenant);
    if (key === undefined) return recordRefusal(journal, call, refuse("key_not_found"));
    const building = () => build(key, unixSeconds(clock.now()), reading);
    const bytes = await telling(journal, call, () => decide(key, call, building));
    const about = { ...call, purpose: key.purpose };
    if (isRefusal(bytes)) return recordRefusal(journal, about, bytes);
    const entry = { ...about, digest: hash("sha256", bytes, "buffer") };
    const [recording, signing] = await Promise.allSettled([
      grant({ ...entry, outcome: "granted" }, () => reading.holds()),
      custody.sign(key, bytes),
    ]);
    if (recording.status === "rejected") throw recording.reason;
    if (!recording.value) continue;
    if (signing.status === "rejected") return fail(journal, entry, signing.reason);
    return { key, signature: signing.value, bytes };
  }
  return fail(
    journal,
    call,
    new VaultError("unavailable", "Other calls are changing the key: try again in a moment"),
  );
}

/**
 * Refuses with `key_not_found` a key that the tenant does not have, and with `rate_limited` one that signs
 * too often, by itself or with the tenant's others; otherwise the attempt is counted. A call for no key of
 * the tenant's is counted against its caller: nobody uses up the rate of a tenant or a key by naming them.
 */
export async function admit(
  { store, rates, signingRates: { perKey, perTenant } }: SigningParts,
  { caller, keyId, tenant }: Pick<SigningCall, "caller" | "keyId" | "tenant">,
): Promise<Refusal | undefined> {
  const isOwn = (await store.find(keyId, tenant)) !== undefined;
  const wait = rates.take(
    isOwn
      ? [
          { name: `key ${keyId}`, rate: perKey },
          { name: `tenant ${tenant}`, rate: perTenant },
        ]
      : [{ name: `caller ${caller.role}/${caller.name}`, rate: perTenant }],
  );
  if (wait !== undefined) return { ...refuse("rate_limited"), retryAfterSeconds: Math.ceil(wait) };
  return isOwn ? undefined : refuse("key_not_found");
}

/**
 * Gives what `work` gives. A damaged key that it meets is on record, as `failed`, before its error is passed
 * on.
 */
export async function telling<T>(
  journal: Journal,
  { caller, keyId, statement, detail }: Pick<SigningCall, "caller" | "keyId" | "statement" | "detail">,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof VaultError && error.code === "key_damaged") {
      await journal.record({ caller, keyId, statement, detail, outcome: "failed" });
    }
    throw error;
  }
}

async function decide(
  key: Key,
  call: SigningCall,
  build: () => Promise<Uint8Array | Refusal>,
): Promise<Uint8Array | Refusal> {
  if (key.purpose !== call.purpose) return refuse("purpose_mismatch", `The key's purpose is ${key.purpose}`);
  if (key.state !== "active" || key.tenantState !== "active") return refuse("key_disabled");
  return build();
}

async function fail(journal: Journal, entry: Omit<AuditEntry, "outcome">, reason: unknown): Promise<never> {
  await journal.record({ ...entry, outcome: "failed" });
  throw reason;
}
