import { type Journal, type JournalParts, openJournal } from "./audit/journal.ts";
import { createRegister, type Register } from "./audit/last_states.ts";
import { createRowCodes, type RowCodes } from "./audit/row_codes.ts";
import { createSnapshots, keepSnapshots, type Snapshots } from "./audit/snapshots.ts";
import { LedgerMismatch } from "./audit/writer_connection.ts";
import type { Clock } from "./clock.ts";
import type { Config, SigningRates } from "./config.ts";
import { available, type Database, openDatabase } from "./db/database.ts";
import { watchPrimary } from "./db/primary.ts";
import { UserError, VaultError } from "./errors.ts";
import { syncFolder } from "./files.ts";
import { VAULT_TENANT } from "./keys/change.ts";
import { type CreateKey, type CreateKeyParts, createKeyCreation } from "./keys/create.ts";
import { type Custody, createCustody, type KeptKey } from "./keys/custody.ts";
import { createDataKeys, type DataKeys } from "./keys/data_keys.ts";
import { createKeyStore, type JoinedKeyRow, type Key, type KeyStore, keyOf, readKey } from "./keys/store.ts";
import type { Logger } from "./log.ts";
import { createRates, type Rates } from "./rates.ts";
import type { Token } from "./token/client.ts";

/** The `requestKey` with which the vault creates its own key, once. */
export const SERVICE_REQUEST = "local:service-key";
const LOCAL = { role: "local", name: "init" } as const;

/** The open parts of a vault, without a network listener. */
export type Vault = {
  token: Token;
  database: Database;
  journal: Journal;
  /** State of the vault according to the verified audit. */
  register: Register;
  dataKeys: DataKeys;
  custody: Custody;
  rowCodes: RowCodes;
  store: KeyStore;
  createKey: CreateKey;
  /**
   * The vault's own key. `read` rejects with `VaultError key_damaged` if the key was altered since the
   * opening.
   */
  service: { keyId: string; read(): Promise<Key> };
  rates: Rates;
  signingRates: SigningRates;
  /** Writes the token's files to disk, if the token consists of files in the vault's folder. */
  flush(): Promise<void>;
  /** True if opening the vault created the service key. */
  serviceKeyMade: boolean;
  close(): Promise<void>;
};

/** Dependencies of {@link openVault}. */
export type VaultParts = { config: Config; clock: Clock; log: Logger; token: Token };

/** Connections that write the audit, read the state that the vault reports, and watch the primary. */
const OTHER_CONNECTIONS = 3;

/** Whether a vault without a service key creates it (`keyvault init`) or does not open (`keyvault serve`). */
export type ServiceKeyRule = "create" | "require";

/**
 * Opens database, audit chain and service key with an open token, which the caller closes. Rejects with a
 * `UserError` if a part is missing or the parts do not belong together, and then closes everything that it
 * opened. When the token is sealed, the vault immediately forgets all keys in memory.
 */
export async function openVault(
  { config, clock, log, token }: VaultParts,
  rule: ServiceKeyRule,
): Promise<Vault> {
  const closers: (() => unknown)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const { databaseUrl, databasePoolSize } = config;
    const primary = watchPrimary(databaseUrl, log);
    closers.push(() => primary.stop());
    const { opened: registered } = primary;
    const size = databasePoolSize - OTHER_CONNECTIONS;
    const database = openDatabase(databaseUrl, log, size, undefined, registered);
    closers.push(() => database.destroy());
    const dataKeys = createDataKeys(token);
    closers.push(() => dataKeys.clear());
    const custody = createCustody(dataKeys);
    let service: KeptKey | undefined;
    const register = createRegister();
    const rowCodes = createRowCodes(token, register);
    const store = createKeyStore(database, rowCodes, () => requireService(service).publicKey);
    token.whenSealed(() => {
      dataKeys.clear();
      store.changed();
    });
    const snapshots = createSnapshots({ database, token, register });
    const reopened = (): void => store.changed();
    const chain = { databaseUrl, opened: registered, token, clock, log, register, reopened };
    const { journal, savedAt } = await openChain(chain, snapshots);
    closers.push(() => journal.close());
    const keeping = keepSnapshots({ snapshots, register, log }, savedAt);
    closers.push(() => keeping.stop());
    const { keysPerTenant } = config;
    const flush = async (): Promise<void> => {
      if (config.token.managed) await syncFolder(config.token.dir);
    };
    const parts = { database, journal, register, clock, token, custody, dataKeys, rowCodes, keysPerTenant };
    const opened = await openServiceKey(parts, rule);
    service = opened.key;
    const { keyId } = opened.key;
    const serviceKey = async (): Promise<KeptKey> => requireService(await store.find(keyId));
    return {
      ...parts,
      store,
      createKey: createKeyCreation({ ...parts, service: serviceKey }),
      service: { keyId, read: () => readOwnKey(keyId, parts) },
      rates: createRates(() => performance.now()),
      signingRates: config.signingRates,
      serviceKeyMade: opened.made,
      flush,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** If the stored snapshot does not belong to this chain, verifies the chain from the first record. */
async function openChain(
  parts: Omit<JournalParts, "taken">,
  snapshots: Snapshots,
): Promise<{ journal: Journal; savedAt: number }> {
  const taken = await snapshots.load();
  const savedAt = parts.register.head().seq;
  try {
    return { journal: await openJournal({ ...parts, taken }), savedAt };
  } catch (error) {
    if (taken.length === 0 || !(error instanceof LedgerMismatch)) throw error;
    parts.log.warn({ event: "audit_register_unusable", reason: error.message });
    parts.register.begin();
    return { journal: await openJournal(parts), savedAt: 0 };
  }
}

type Parts = Omit<CreateKeyParts, "service"> & { register: Register };

async function openServiceKey(parts: Parts, rule: ServiceKeyRule): Promise<{ key: Key; made: boolean }> {
  const stored = await readServiceKey(parts.database);
  if (stored !== undefined) {
    return { key: requireVerified(await verifyServiceKey(stored, parts)), made: false };
  }
  if (rule === "require") throw new UserError('This vault has no service key: run "keyvault init"');
  const create = createKeyCreation({ ...parts, service: undefined });
  await create(LOCAL, SERVICE_REQUEST, { tenant: VAULT_TENANT, purpose: "service", label: "service key" });
  const made = requireService(await readServiceKey(parts.database));
  return { key: requireVerified(await verifyServiceKey(made, parts)), made: true };
}

async function readOwnKey(keyId: string, parts: Parts): Promise<Key> {
  const stored = await available(() => readServiceKey(parts.database));
  const key = stored && (await verifyServiceKey(stored, parts));
  if (key?.keyId !== keyId) throw new VaultError("key_damaged");
  return key;
}

function requireVerified(key: Key | undefined): Key {
  if (key === undefined) {
    throw new UserError(
      "The vault's service key was altered, or the database belongs to another token: restore both from one backup",
    );
  }
  return key;
}

async function readServiceKey(database: Database): Promise<JoinedKeyRow | undefined> {
  const row = await database("keys")
    .where({ request_key: SERVICE_REQUEST })
    .first<{ key_id: string } | undefined>("key_id");
  return row && readKey(database, row.key_id);
}

/**
 * Returns the service key if its seeds can be unwrapped and match the vault's own service key, otherwise
 * `undefined`. An earlier version may have stored it without a code. Then the key waits for adoption: the
 * vault accepts its public half and its earlier attestations, but the key attests nothing new.
 */
async function verifyServiceKey(
  joined: JoinedKeyRow,
  { custody, rowCodes, register }: Parts,
): Promise<Key | undefined> {
  const { key: row, tenant } = joined;
  try {
    const key = keyOf(joined);
    if (row.tenant !== VAULT_TENANT || row.purpose !== "service") throw new VaultError("key_damaged");
    const waits = row.state_mac === null && register.isAdoptable("key", row.key_id);
    if (!waits) await rowCodes.require({ keys: [row], tenants: [tenant] });
    return (await custody.isIntact(key)) ? key : undefined;
  } catch (error) {
    if (!(error instanceof VaultError) || error.code !== "key_damaged") throw error;
    return undefined;
  }
}

function requireService<T>(service: T | undefined): T {
  if (service === undefined) throw new VaultError("internal", "The service key is not open");
  return service;
}
