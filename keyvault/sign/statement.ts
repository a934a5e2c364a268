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

/** Maximum seconds between a time in a statement and the vault's clock, in either direction, inclusive. */
export const CLOCK_TOLERANCE_SECONDS = 60;

/** Refuses a time in a statement that is too far from `now`. `time` and `now` are in Unix seconds. */
export function clockRefusal(field: string, time: number, now: number): Refusal | undefined {
  if (Math.abs(now - time) <= CLOCK_TOLERANCE_SECONDS) return undefined;
  return refuse(
    "policy_violation",
    `${field} is more than ${CLOCK_TOLERANCE_SECONDS} s away from the vault's clock`,
  );
}

/** Dependencies of signing in general. */
export type SigningParts = {
  store: KeyStore;
  custody: Custody;
  journal: Journal;
  register: Pick<Register, "lastList">;
  clock: Clock;
  rates: Rates;
  signingRates: SigningRates;
};

/** The key id and tenant that a caller named, and the kind of statement to sign. */
export type SigningCall = {
  caller: Caller;
  keyId: string;
  tenant: string;
  purpose: Purpose;
  statement: StatementKind;
  /** Details of the statement for the audit record. */
  detail: Readonly<Record<string, string>>;
};

/**
 * Decides whether the statement may be signed and builds its bytes. Only these bytes are ever signed. `now`
 * is in Unix seconds. Other keys that the decision needs must be read with `reading`.
 */
export type BuildBytes = (key: Key, now: number, reading: Reading) => Promise<Uint8Array | Refusal>;

/**
 * Writes the record of a signed statement and returns true. Calls `stillTrue` just before writing. If
 * `stillTrue` returns false, this function writes nothing and also returns false.
 */
export type Grant = (entry: AuditEntry, stillTrue: () => boolean) => Promise<boolean>;

/** A signature and the key that made it. */
export type Signed = { key: Key; signature: HybridSignature; bytes: Uint8Array };

const ATTEMPTS = 5;

/**
 * Signs a statement with both halves, or refuses. Creates the signature while its audit record is written,
 * and returns it only after the record is durable. If a key that the decision used changes in between,
 * decides again, so that the recorded decision is based on current keys. After five attempts, records
 * `failed` and rejects with `VaultError unavailable`.
 */
export async function signStatement(
  parts: SigningParts,
  call: SigningCall,
  build: BuildBytes,
  grant: Grant = parts.journal.record,
): Promise<Signed | Refusal> {
  const { store, custody, journal, clock } = parts;
  const unfit = await recordingDamage(journal, call, () => admit(parts, call));
  if (unfit !== undefined) return recordRefusal(journal, call, unfit);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const reading = store.reading();
    const key = await reading.find(call.keyId, call.tenant);
    if (key === undefined) return recordRefusal(journal, call, refuse("key_not_found"));
    const building = () => build(key, unixSeconds(clock.now()), reading);
    const bytes = await recordingDamage(journal, call, () => decide(key, call, building));
    const about = { ...call, purpose: key.purpose };
    if (isRefusal(bytes)) return recordRefusal(journal, about, bytes);
    const entry = { ...about, digest: hash("sha256", bytes, "buffer") };
    const [recording, signing] = await Promise.allSettled([
      grant({ ...entry, outcome: "granted" }, () => reading.isCurrent()),
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
 * Refuses with `key_not_found` if the tenant does not have the key, and with `rate_limited` if the key, or
 * all keys of the tenant together, exceed the signing rate. Otherwise counts the attempt. A call with another
 * tenant's key counts against the caller, so nobody can use up the rate limit of a tenant or a key by naming
 * it.
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

/** Returns the result of `work`. If a key is damaged, writes a `failed` record before it rejects. */
export async function recordingDamage<T>(
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
