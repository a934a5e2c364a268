import { equalPublicKeys } from "../src/protocol/hybrid.ts";
import { type Journal, openJournal } from "./audit/journal.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { type Database, openDatabase } from "./db/connection.ts";
import { VaultError } from "./errors.ts";
import { syncFolder } from "./files.ts";
import { adoptStates } from "./keys/adopt.ts";
import { type CreateKey, type CreateKeyParts, createKeyCreation } from "./keys/create.ts";
import { type Custody, createCustody, type KeptKey } from "./keys/custody.ts";
import { createDataKeys, type DataKeys } from "./keys/data_keys.ts";
import { VAULT_TENANT } from "./keys/disable.ts";
import { createResidency } from "./keys/residency.ts";
import { createSeals, type Seals } from "./keys/state.ts";
import { createKeyStore, type JoinedKeyRow, type Key, type KeyStore, keyOf, readKey } from "./keys/store.ts";
import {
  checkResidents,
  createResidentSweeping,
  type ResidentsCheck,
  type SweepResidents,
} from "./lifecycle/sweep_residents.ts";
import type { Logger } from "./log.ts";
import { Problem } from "./problem.ts";
import { createRates, type Rates } from "./rates.ts";
import type { SigningRates } from "./sign/statement.ts";
import type { Token } from "./token/client.ts";

/** The name under which the vault makes its own key, once. */
export const SERVICE_REQUEST = "local:service-key";
const LOCAL = { role: "local", name: "init" } as const;

/** The open parts of a vault, without anything that listens. */
export type Vault = {
  token: Token;
  database: Database;
  journal: Journal;
  dataKeys: DataKeys;
  custody: Custody;
  seals: Seals;
  store: KeyStore;
  createKey: CreateKey;
  rates: Rates;
  signingRates: SigningRates;
  /** What database and token said of each other's resident keys when the vault was opened. */
  residents: ResidentsCheck;
  sweepResidents: SweepResidents;
  /** Puts what the token wrote on the disk, where the token is files of the vault's own. */
  settle(): Promise<void>;
  /** Whether the service key had to be made. */
  serviceKeyMade: boolean;
  close(): Promise<void>;
};

/** What a vault is opened from. */
export type VaultParts = { config: Config; clock: Clock; log: Logger; token: Token };

/** Whether a vault without its service key gets one (`keyvault init`) or is refused (`keyvault serve`). */
export type ServiceKeyRule = "create" | "require";

/**
 * Opens database and audit chain on an open token, and the service key that attests all others, whose public half is checked against its
 * seeds. Rejects with a `Problem` when a part is missing or the parts do not belong together; whatever was opened is closed again. The
 * token stays its opener's. When it is sealed, everything remembered of keys is forgotten at that moment.
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
    const database = openDatabase(config.databaseUrl, log);
    closers.push(() => database.destroy());
    const dataKeys = createDataKeys(token);
    closers.push(() => dataKeys.clear());
    const custody = createCustody(dataKeys, token);
    let service: KeptKey | undefined;
    const seals = createSeals(token);
    const store = createKeyStore(database, seals, () => requireService(service).publicKey);
    token.whenSealed(() => {
      dataKeys.clear();
      store.changed();
    });
    const journal = await openJournal({
      databaseUrl: config.databaseUrl,
      token,
      clock,
      log,
      reopened({ seq }) {
        seals.reopened(seq);
        store.changed();
      },
    });
    closers.push(() => journal.close());
    const { keysPerTenant, residentKeys: limit } = config;
    const settle = async (): Promise<void> => {
      if (config.token.managed) await syncFolder(config.token.dir);
    };
    const residency = createResidency({ journal, token, clock, log, limit, settle });
    const parts = { database, custody, dataKeys, seals, journal, clock, token, keysPerTenant, residency };
    await adoptStates(parts);
    const opened = await openServiceKey(parts, rule);
    const sweepResidents = createResidentSweeping({ database, journal, seals, token, settle });
    await sweepResidents(clock.now());
    const residents = await checkResidents(parts);
    if (residents.missing.length + residents.unknown.length > 0)
      log.error({ event: "residents_differ", ...residents });
    service = opened.key;
    const { keyId } = opened.key;
    const serviceKey = async (): Promise<KeptKey> => requireService(await store.find(keyId));
    return {
      token,
      database,
      journal,
      dataKeys,
      custody,
      seals,
      store,
      createKey: createKeyCreation({ ...parts, service: serviceKey }),
      rates: createRates(() => performance.now()),
      signingRates: config.signingRates,
      serviceKeyMade: opened.made,
      sweepResidents,
      residents,
      settle,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type Parts = Omit<CreateKeyParts, "service">;

async function openServiceKey(parts: Parts, rule: ServiceKeyRule): Promise<{ key: Key; made: boolean }> {
  const stored = await readServiceKey(parts.database);
  if (stored !== undefined) return { key: await proven(stored, parts), made: false };
  if (rule === "require") throw new Problem('This vault has no service key: run "keyvault init"');
  const create = createKeyCreation({ ...parts, service: undefined });
  await create(LOCAL, SERVICE_REQUEST, { tenant: VAULT_TENANT, purpose: "service", label: "service key" });
  return { key: await proven(requireService(await readServiceKey(parts.database)), parts), made: true };
}

async function readServiceKey(database: Database): Promise<JoinedKeyRow | undefined> {
  const row = await database("keys")
    .where({ request_key: SERVICE_REQUEST })
    .first<{ key_id: string } | undefined>("key_id");
  return row && readKey(database, row.key_id);
}

async function proven(joined: JoinedKeyRow, { custody, seals }: Parts): Promise<Key> {
  try {
    const key = keyOf(joined);
    await seals.require({ keys: [joined.key], tenants: [joined.tenant] });
    if (equalPublicKeys(await custody.publicKey(key), key.publicKey)) return key;
  } catch (error) {
    if (!(error instanceof VaultError) || error.code !== "key_damaged") throw error;
  }
  throw new Problem("The vault's service key was altered, or the database belongs to another token");
}

function requireService<T>(service: T | undefined): T {
  if (service === undefined) throw new VaultError("internal", "The service key is not open");
  return service;
}
