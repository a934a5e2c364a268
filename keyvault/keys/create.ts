import { hash } from "node:crypto";
import type pg from "pg";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import type { HybridPublicKey } from "../../src/protocol/keys/hybrid.ts";
import { type Change, type Journal, recordRefusal } from "../audit/journal.ts";
import type { Register } from "../audit/last_states.ts";
import type { AuditEntry, Caller } from "../audit/record.ts";
import { keyStateDigest, type RowCodes } from "../audit/row_codes.ts";
import { type Clock, unixSeconds } from "../clock.ts";
import { available, type Database } from "../db/database.ts";
import type { Attestation, KeyRow, TenantRow } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import type { Token } from "../token/client.ts";
import type { Custody, KeptKey } from "./custody.ts";
import type { DataKeys } from "./data_keys.ts";
import {
  exceedsQuota,
  exceedsTenantCeiling,
  insertKey,
  isMade,
  type KeyRequest,
  NEW_TENANT,
  type NewKeyRow,
  placeTenant,
  refuseEnding,
} from "./new_key.ts";
import { attestationSignBytes, verifyAttestation } from "./store.ts";

/** The public parts of a new key. */
export type CreatedKey = { key_id: string; public_key: HybridPublicKey; attestation: Attestation };

/**
 * Creates a key, only once for each `requestKey`. The same request again returns the same key. If a different
 * request has the same `requestKey`, refuses with `idempotency_conflict`. Rejects with
 * `VaultError key_damaged` if the existing key was altered. Stores key, tenant's data key and audit record in
 * one transaction.
 */
export type CreateKey = (
  caller: Caller,
  requestKey: string,
  request: KeyRequest,
) => Promise<CreatedKey | Refusal>;

/**
 * Dependencies of key creation. `service` returns the key that attests every new key. `service` is undefined
 * only while the service key itself is created.
 */
export type CreateKeyParts = {
  database: Database;
  custody: Custody;
  dataKeys: DataKeys;
  rowCodes: RowCodes;
  register: Pick<Register, "rootsOf">;
  /** Maximum number of keys per tenant. 0 means no limit. */
  keysPerTenant: number;
  journal: Journal;
  clock: Clock;
  token: Pick<Token, "info">;
  service: (() => Promise<KeptKey>) | undefined;
};

type Stored = "stored" | "raced" | "damaged" | Refusal;

/** `intact` means that the row is unchanged since the vault last wrote it. */
type Made = { row: KeyRow; intact: boolean };

type Prepared = { key: KeptKey; attestation: Attestation; createdAt: Date };

const ATTEMPTS = 5;

/** Creates the operation that creates keys. */
export function createKeyCreation({
  database,
  custody,
  dataKeys,
  rowCodes,
  register,
  keysPerTenant,
  journal,
  clock,
  token,
  service,
}: CreateKeyParts): CreateKey {
  async function prepare({ tenant, purpose }: KeyRequest): Promise<Prepared | Refusal | "raced" | "damaged"> {
    const readAt = rowCodes.now();
    const known = await available(() => database<TenantRow>("tenants").where({ tenant }).first());
    if (known !== undefined && known.state !== "active") return answerForEnding(known, readAt);
    const dataKey = known ?? (await dataKeys.create(tenant));
    const key = await custody.generate(dataKey, tenant, purpose);
    const createdAt = clock.now();
    const signer = (await service?.()) ?? key;
    const fields = {
      type: "key_attestation" as const,
      version: 1 as const,
      key_id: key.keyId,
      public_key: key.publicKey,
      tenant,
      purpose,
      created_at: unixSeconds(createdAt),
      attested_by: signer.keyId,
    };
    const signature = await custody.sign(signer, attestationSignBytes(fields));
    return { key, attestation: { ...fields, signature }, createdAt };
  }

  /**
   * Returns the answer for a tenant that is being destroyed according to its row. The row was read at audit
   * position `readAt`.
   */
  async function answerForEnding(tenant: TenantRow, readAt: number): Promise<Refusal | "raced" | "damaged"> {
    const rows = { keys: [], tenants: [tenant] };
    const [isIntact] = await rowCodes.check(rows);
    if (isIntact === true) return refuseEnding();
    return rowCodes.overtaken(rows, readAt) ? "raced" : "damaged";
  }

  return async (caller, requestKey, request) => {
    const requestHash = hash("sha256", canonicalBytes(request), "buffer");
    const about = {
      caller,
      purpose: request.purpose,
      statement: "key_create",
      detail: { tenant: request.tenant },
    } as const;

    async function replay({ row, intact }: Made): Promise<CreatedKey | Refusal> {
      const keyEntry = { ...about, keyId: row.key_id };
      if (intact && !row.request_hash.equals(requestHash)) {
        return recordRefusal(journal, keyEntry, refuse("idempotency_conflict"));
      }
      if (intact && (await isAnswer(row, request, service))) return repeat(journal, about, row);
      await journal.record({ ...keyEntry, outcome: "failed" });
      throw new VaultError("key_damaged");
    }

    /**
     * Reads the key that was created earlier under `requestKey`, again if the key changed during the read.
     */
    async function readMade(): Promise<Made | undefined> {
      for (;;) {
        const readAt = rowCodes.now();
        const row = await available(() =>
          database<KeyRow>("keys").where({ request_key: requestKey }).first(),
        );
        if (row === undefined) return undefined;
        const rows = { keys: [row], tenants: [] };
        const [intact = false] = await rowCodes.check(rows);
        if (intact || !rowCodes.overtaken(rows, readAt)) return { row, intact };
      }
    }

    async function store(
      prepared: Awaited<ReturnType<typeof prepare>>,
    ): Promise<Exclude<Stored, "stored"> | CreatedKey> {
      if (prepared === "damaged") await journal.record({ ...about, outcome: "failed" });
      if (prepared === "damaged" || prepared === "raced") return prepared;
      if (isRefusal(prepared)) return recordRefusal(journal, about, prepared);
      const roots = () => register.rootsOf(request.tenant);
      const named = { about, request, requestKey, requestHash };
      const made = { ...named, prepared, roots, keysPerTenant, token };
      const stored = await journal.change((client, seq) => storeKey(client, seq, rowCodes, made));
      return stored === "stored" ? created(rowOf(made)) : stored;
    }

    for (let tries = 0; tries < ATTEMPTS; tries += 1) {
      const made = await readMade();
      if (made !== undefined) return replay(made);
      const result = await store(await prepare(request));
      if (result === "raced") continue;
      if (result === "damaged") throw new VaultError("key_damaged");
      return result;
    }
    throw new VaultError(
      "unavailable",
      "Other calls are making the tenant's first key: try again in a moment",
    );
  };
}

type NewKey = {
  about: Omit<AuditEntry, "outcome" | "keyId" | "digest">;
  prepared: Prepared;
  request: KeyRequest;
  requestKey: string;
  requestHash: Buffer;
  /** Returns the ids of the tenant's root keys according to the audit. */
  roots(): readonly string[];
  keysPerTenant: number;
  token: Pick<Token, "info">;
};

/** Stores key and tenant, or returns the reason why not. Call it in a transaction of the journal. */
async function storeKey(
  client: pg.Client,
  seq: number,
  rowCodes: RowCodes,
  made: NewKey,
): Promise<Change<Stored>> {
  const { about, prepared, request } = made;
  if (await isMade(client, made.requestKey)) return { value: "raced" };
  const refusal =
    (await exceedsQuota(client, request.tenant, made.keysPerTenant)) ??
    (await exceedsTenantCeiling(client, { rowCodes, known: made.roots() }, request));
  if (refusal !== undefined) return failedChange(refusal, about);
  const { key, attestation, createdAt } = prepared;
  const coded = await rowCodes.add({
    keys: [{ ...rowOf(made), state_seq: seq }],
    tenants: [{ ...NEW_TENANT, ...key.dataKey, created_at: createdAt, state_seq: seq }],
  });
  const [row, tenant] = [coded.keys[0], coded.tenants[0]];
  if (row === undefined || tenant === undefined) throw new VaultError("internal");
  const entry = { ...about, keyId: key.keyId };
  const fault = await placeTenant(client, rowCodes, tenant, made.token.info().keks);
  if (fault !== undefined) return failedChange(fault, entry);
  await insertKey(client, row);
  const digest = hash("sha256", attestationSignBytes(attestation), "buffer");
  const state = keyStateDigest(row).toString("hex");
  const detail = { ...about.detail, state };
  return { value: "stored", entry: { ...entry, digest, detail, outcome: "granted" } };
}

function failedChange(
  fault: "raced" | "damaged" | Refusal,
  entry: Omit<AuditEntry, "outcome">,
): Change<"raced" | "damaged" | Refusal> {
  if (fault === "raced") return { value: fault };
  const outcome = fault === "damaged" ? "failed" : fault.refused;
  return { value: fault, entry: { ...entry, outcome } };
}

/** Returns whether the service key attested a stored key, for the requested tenant and purpose. */
async function isAnswer(
  { key_id, public_key, tenant, purpose, attestation }: KeyRow,
  request: KeyRequest,
  service: CreateKeyParts["service"],
): Promise<boolean> {
  if (tenant !== request.tenant || purpose !== request.purpose) return false;
  const key = { keyId: key_id, publicKey: public_key, tenant, purpose };
  return verifyAttestation(attestation, key, (await service?.())?.publicKey ?? public_key);
}

async function repeat(journal: Journal, about: NewKey["about"], row: KeyRow): Promise<CreatedKey> {
  const detail = { ...about.detail, repeated: "true" };
  await journal.record({ ...about, keyId: row.key_id, outcome: "granted", detail });
  return created(row);
}

function created({ key_id, public_key, attestation }: CreatedKey): CreatedKey {
  return { key_id, public_key, attestation };
}

function rowOf({ prepared, request, requestKey, requestHash }: NewKey): Omit<NewKeyRow, "state_seq"> {
  const { key, attestation, createdAt } = prepared;
  return {
    key_id: key.keyId,
    tenant: request.tenant,
    purpose: request.purpose,
    label: request.label,
    public_key: key.publicKey,
    wrapped_seeds: Buffer.from(key.wrappedSeeds),
    seeds_version: key.version,
    attestation,
    ceiling: request.ceiling ?? null,
    created_at: createdAt,
    request_key: requestKey,
    request_hash: requestHash,
    state: "active",
    disabled_at: null,
    pending: null,
    destroy_at: null,
  };
}
