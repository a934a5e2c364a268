import type { Knex } from "knex";
import { LRUCache } from "lru-cache";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { type HybridPublicKey, keyId, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import type { RowCodes } from "../audit/row_codes.ts";
import { available, type Database } from "../db/database.ts";
import type { Attestation, KeyRow, Purpose, TenantRow } from "../db/rows.ts";
import { VaultError } from "../errors.ts";
import { createChanges } from "./changes.ts";
import type { KeptKey } from "./custody.ts";
import { ownBytes } from "./wrapping.ts";

const KEPT_KEYS = 10_000;
const KEPT_MS = 60_000;

/**
 * A key with only the fields that signing needs, because many keys are cached. `ceiling` limits every
 * delegation that the key issues or receives. Null means no limit.
 */
export type Key = KeptKey & {
  label: string;
  state: KeyRow["state"];
  ceiling: readonly string[] | null;
  /** If the tenant is being destroyed, its keys sign nothing, whatever their own states are. */
  tenantState: TenantRow["state"];
};

/** The row of a key together with the row of its tenant. */
export type JoinedKeyRow = { key: KeyRow; tenant: TenantRow };

type CheckedRow = { row: JoinedKeyRow; intact: boolean };

/** Keys that are read for one decision. */
export type Reading = Pick<KeyStore, "find"> & {
  /** Returns true while none of the keys read so far has changed. Missing keys count too. */
  isCurrent(): boolean;
};

/**
 * Keys by id, cached for up to a minute. Only this process changes keys, because it is the only writer of the
 * audit chain. Every change calls {@link KeyStore.changed}, so the cache always agrees with the database.
 */
export type KeyStore = {
  /**
   * Returns the key after checking its attestation and state, or `undefined` if the key does not exist. If
   * `tenant` is set, returns `undefined` for another tenant's key, after the same time as for a missing key.
   * Rejects with `VaultError key_damaged` if the service key did not attest the row or its state is not the
   * last one that the vault wrote. Rejects with `unavailable` if the database does not answer.
   */
  find(keyId: string, tenant?: string): Promise<Key | undefined>;
  /** Returns the key's current row. Behaves like {@link KeyStore.find} otherwise. */
  read(keyId: string, tenant?: string): Promise<JoinedKeyRow | undefined>;
  /**
   * Returns the rows of `read` in the same order. A row is `intact` if the service key attested it and the
   * states of key and tenant are the last ones that the vault wrote. Reads a row again if it changes
   * meanwhile.
   */
  checkRows(read: () => PromiseLike<readonly JoinedKeyRow[]>): Promise<CheckedRow[]>;
  /** Starts to read the keys of one decision. */
  reading(): Reading;
  /** Removes a key from the cache, or all keys if `keyId` is omitted. */
  changed(keyId?: string): void;
};

/** Returns a store that trusts keys attested by the `service` key. */
export function createKeyStore(
  database: Database,
  rowCodes: RowCodes,
  service: () => HybridPublicKey,
): KeyStore {
  const kept = new LRUCache<string, Key>({ max: KEPT_KEYS, ttl: KEPT_MS });
  const changes = createChanges(KEPT_KEYS);

  async function readOne(keyId: string, tenant?: string): Promise<JoinedKeyRow[]> {
    const row = await readKey(database, keyId, tenant);
    return row === undefined ? [] : [row];
  }

  async function check(rows: readonly JoinedKeyRow[]): Promise<boolean[]> {
    const signer = service();
    const [attested, coded] = await Promise.all([
      Promise.all(rows.map((row) => isAttested(row, signer))),
      rowCodes.check({ keys: rows.map(({ key }) => key), tenants: rows.map(({ tenant }) => tenant) }),
    ]);
    return attested.map(
      (holds, index) => holds && coded[index] === true && coded[rows.length + index] === true,
    );
  }

  const store: KeyStore = {
    async find(keyId, tenant) {
      const known = kept.get(keyId);
      if (known !== undefined && (tenant === undefined || known.tenant === tenant)) return known;
      const before = changes.count();
      const row = await store.read(keyId, tenant);
      if (row === undefined) return undefined;
      const key = keyOf(row);
      if (!changes.happened(keyId, before)) kept.set(keyId, key);
      return key;
    },
    async read(keyId, tenant) {
      const [checked] = await store.checkRows(() => readOne(keyId, tenant));
      if (checked?.intact === false) throw new VaultError("key_damaged");
      return checked?.row;
    },
    async checkRows(read) {
      const readAt = rowCodes.now();
      const rows = await read();
      const holds = await check(rows);
      const checked = rows.map(async (row, index): Promise<CheckedRow> => {
        const last = { row, intact: holds[index] === true };
        const { key, tenant } = row;
        if (last.intact || !rowCodes.overtaken({ keys: [key], tenants: [tenant] }, readAt)) return last;
        const [again] = await store.checkRows(() => readOne(key.key_id));
        return again ?? last;
      });
      return Promise.all(checked);
    },
    reading() {
      const before = changes.count();
      const lookedFor = new Set<string>();
      return {
        find(keyId, tenant) {
          lookedFor.add(keyId);
          return store.find(keyId, tenant);
        },
        isCurrent: () => !lookedFor.values().some((keyId) => changes.happened(keyId, before)),
      };
    },
    changed(keyId) {
      changes.note(keyId);
      if (keyId === undefined) {
        kept.clear();
      } else {
        kept.delete(keyId);
      }
    },
  };
  return store;
}

/** Returns the result of {@link verifyAttestation}, or false if the row cannot be read. */
async function isAttested(row: JoinedKeyRow, service: HybridPublicKey): Promise<boolean> {
  try {
    return await verifyAttestation(row.key.attestation, keyOf(row), service);
  } catch {
    return false;
  }
}

/**
 * Reads a key with its tenant's data key. Returns `undefined` if there is no such key. If `tenant` is set,
 * the key's row must name that tenant, or the key must be attested for it.
 */
export async function readKey(
  database: Database,
  keyId: string,
  tenant?: string,
): Promise<JoinedKeyRow | undefined> {
  const query = selectKeys(database).where("keys.key_id", keyId);
  if (tenant !== undefined) query.whereRaw("? in (keys.tenant, keys.attestation ->> 'tenant')", [tenant]);
  const [row] = await available(() => query);
  return row && joinedRow(row);
}

/** Returns a query of keys with their tenants. {@link joinedRow} converts its rows. */
export function selectKeys(database: Database): Knex.QueryBuilder<FlatRow, FlatRow[]> {
  const tenantColumns = TENANT_COLUMNS.map((column) => `tenants.${column} AS tenant_${column}`).join(", ");
  return database("keys")
    .join("tenants", "tenants.tenant", "keys.tenant")
    .select(database.raw(`keys.*, ${tenantColumns}`));
}

const TENANT_COLUMNS = [
  "kek",
  "wrapped_data_key",
  "created_at",
  "state",
  "pending",
  "destroy_at",
  "state_seq",
  "state_mac",
] as const;

type FlatRow = KeyRow & {
  [Column in keyof Omit<TenantRow, "tenant"> as `tenant_${Column}`]: TenantRow[Column];
};

/** Converts a row of {@link selectKeys}. */
export function joinedRow(row: FlatRow): JoinedKeyRow {
  return {
    key: row,
    tenant: {
      tenant: row.tenant,
      kek: row.tenant_kek,
      wrapped_data_key: row.tenant_wrapped_data_key,
      created_at: row.tenant_created_at,
      state: row.tenant_state,
      pending: row.tenant_pending,
      destroy_at: row.tenant_destroy_at,
      state_seq: row.tenant_state_seq,
      state_mac: row.tenant_state_mac,
    },
  };
}

/** Converts a row to the key that the operations use. */
export function keyOf({ key: row, tenant }: JoinedKeyRow): Key {
  return {
    keyId: row.key_id,
    tenant: row.tenant,
    purpose: row.purpose,
    publicKey: row.public_key,
    version: row.seeds_version,
    wrappedSeeds: ownBytes(row.wrapped_seeds),
    dataKey: {
      tenant: row.tenant,
      kek: tenant.kek,
      wrapped_data_key: ownBytes(tenant.wrapped_data_key),
    },
    label: row.label,
    state: row.state,
    ceiling: row.ceiling,
    tenantState: tenant.state,
  };
}

/** An attestation before it is signed. */
export type AttestationFields = Omit<Attestation, "signature">;

/** Returns the bytes that the service key signs: canonical JSON of all fields except the signature. */
export function attestationSignBytes(fields: AttestationFields): Uint8Array {
  const { type, version, key_id, public_key, tenant, purpose, created_at, attested_by } = fields;
  return canonicalBytes({ type, version, key_id, public_key, tenant, purpose, created_at, attested_by });
}

/** The key, tenant and purpose that an attestation must state to be valid for a key. */
type AttestedKey = { keyId: string; publicKey: HybridPublicKey; tenant: string; purpose: Purpose };

/** Returns whether `attestation` is a valid statement of the `service` key about exactly this key. */
export async function verifyAttestation(
  attestation: Attestation,
  key: AttestedKey,
  service: HybridPublicKey,
): Promise<boolean> {
  if (
    attestation.type !== "key_attestation" ||
    attestation.version !== 1 ||
    attestation.key_id !== key.keyId ||
    attestation.tenant !== key.tenant ||
    attestation.purpose !== key.purpose ||
    attestation.public_key.ed25519 !== key.publicKey.ed25519 ||
    attestation.public_key.ml_dsa_65 !== key.publicKey.ml_dsa_65 ||
    attestation.attested_by !== keyId(service) ||
    keyId(key.publicKey) !== key.keyId
  ) {
    return false;
  }
  return verifyHybrid(service, attestationSignBytes(attestation), attestation.signature);
}
