import { hash } from "node:crypto";
import type pg from "pg";
import { canonicalBytes } from "../../src/protocol/canonical.ts";
import type { HybridPublicKey } from "../../src/protocol/hybrid.ts";
import type { Change, Journal } from "../audit/journal.ts";
import type { Caller } from "../audit/record.ts";
import { recordRefusal } from "../audit/refusals.ts";
import { type Clock, unixSeconds } from "../clock.ts";
import type { Database } from "../db/connection.ts";
import type { KeyRow, Purpose } from "../db/rows.ts";
import { isRefusal, type Refusal, refuse, VaultError } from "../errors.ts";
import { type Attestation, attestationSignBytes } from "./attestation.ts";
import type { Custody, KeptKey } from "./custody.ts";
import type { DataKeys } from "./data_keys.ts";
import { insertKey, insertTenant, type NewKeyRow, readRequest } from "./insert.ts";
import { available, readTenant } from "./store.ts";
import { exceedsTenantCeiling } from "./tenant_ceiling.ts";

/** What a key is made from. `ceiling` bounds, for good, what may be delegated by it or to it; it can only shrink. */
export type KeyRequest = { tenant: string; purpose: Purpose; label: string; ceiling?: string[] };

/** A key that was made: its public parts. */
export type CreatedKey = { key_id: string; public_key: HybridPublicKey; attestation: Attestation };

/**
 * Makes a key, once for each `requestKey`: the same request again gives the same key, another request under the same name is refused with
 * `idempotency_conflict`. Key, tenant's data key and audit record are stored in one transaction, or none of them.
 */
export type CreateKey = (
  caller: Caller,
  requestKey: string,
  request: KeyRequest,
) => Promise<CreatedKey | Refusal>;

/** What creation needs. `service` attests every key; it is undefined only while it is made itself, and then attests itself. */
export type CreateKeyParts = {
  database: Database;
  custody: Custody;
  dataKeys: DataKeys;
  journal: Journal;
  clock: Clock;
  service: KeptKey | undefined;
};

type Prepared = { key: KeptKey; attestation: Attestation; createdAt: Date };

const ATTEMPTS = 5;

/** Key creation on these parts. */
export function createKeyCreation({
  database,
  custody,
  dataKeys,
  journal,
  clock,
  service,
}: CreateKeyParts): CreateKey {
  async function prepare({ tenant, purpose }: KeyRequest): Promise<Prepared> {
    const dataKey = (await readTenant(database, tenant)) ?? (await dataKeys.create(tenant));
    const key = await custody.generate(dataKey, tenant, purpose);
    const createdAt = clock.now();
    const signer = service ?? key;
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

  return async (caller, requestKey, request) => {
    const requestHash = hash("sha256", canonicalBytes(request), "buffer");
    const about = {
      caller,
      purpose: request.purpose,
      statement: "key_create",
      detail: { tenant: request.tenant },
    } as const;

    async function replay(row: KeyRow): Promise<CreatedKey | Refusal> {
      const entry = { ...about, keyId: row.key_id };
      if (!row.request_hash.equals(requestHash))
        return recordRefusal(journal, entry, refuse("idempotency_conflict"));
      await journal.record({ ...entry, outcome: "granted", detail: { ...about.detail, repeated: "true" } });
      return created(row);
    }

    async function store(
      client: pg.Client,
      prepared: Prepared,
    ): Promise<Change<"stored" | "raced" | KeyRow | Refusal>> {
      const known = await readRequest(client, requestKey);
      if (known !== undefined) return { value: known };
      const refusal = await exceedsTenantCeiling(client, request);
      if (refusal !== undefined) return { value: refusal, entry: { ...about, outcome: refusal.refused } };
      const { key, attestation, createdAt } = prepared;
      if (!(await insertTenant(client, { ...key.dataKey, created_at: createdAt }))) return { value: "raced" };
      await insertKey(client, rowOf(prepared, request, requestKey, requestHash));
      const digest = hash("sha256", attestationSignBytes(attestation), "buffer");
      return { value: "stored", entry: { ...about, keyId: key.keyId, digest, outcome: "granted" } };
    }

    const known = await available(() => database<KeyRow>("keys").where({ request_key: requestKey }).first());
    if (known !== undefined) return replay(known);
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const prepared = await prepare(request);
      const stored = await journal.change((client) => store(client, prepared));
      if (stored === "stored") return created(rowOf(prepared, request, requestKey, requestHash));
      if (stored === "raced") continue;
      return isRefusal(stored) ? stored : replay(stored);
    }
    throw new VaultError("unavailable", "The tenant's first key is being made by other calls");
  };
}

function created({ key_id, public_key, attestation }: NewKeyRow): CreatedKey {
  return { key_id, public_key, attestation };
}

function rowOf(prepared: Prepared, request: KeyRequest, requestKey: string, requestHash: Buffer): NewKeyRow {
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
  };
}
