import { equalPublicKeys } from "../src/protocol/hybrid.ts";
import { type Journal, openJournal } from "./audit/journal.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { type Database, openDatabase } from "./db/connection.ts";
import { VaultError } from "./errors.ts";
import { type CreateKey, createKeyCreation } from "./keys/create.ts";
import { type Custody, createCustody, type KeptKey } from "./keys/custody.ts";
import { createDataKeys, type DataKeys } from "./keys/data_keys.ts";
import { VAULT_TENANT } from "./keys/disable.ts";
import { createKeyStore, type Key, type KeyStore, keyOf, readKey } from "./keys/store.ts";
import type { Logger } from "./log.ts";
import { Problem } from "./problem.ts";
import { openToken, type Token } from "./token/client.ts";
import { tokenSettings } from "./token/install.ts";

const SERVICE_REQUEST = "local:service-key";
const LOCAL = { role: "local", name: "init" } as const;

/** The open parts of a vault, without anything that listens. */
export type Vault = {
  token: Token;
  database: Database;
  journal: Journal;
  dataKeys: DataKeys;
  custody: Custody;
  store: KeyStore;
  createKey: CreateKey;
  close(): Promise<void>;
};

/** Whether a vault without its service key gets one (`keyvault init`) or is refused (`keyvault serve`). */
export type ServiceKeyRule = "create" | "require";

/**
 * Opens token, database and audit chain, and the service key that attests all others, whose public half is checked against its seeds.
 * Rejects with a `Problem` when a part is missing or the parts do not belong together; whatever was opened is closed again.
 */
export async function openVault(
  config: Config,
  clock: Clock,
  log: Logger,
  rule: ServiceKeyRule,
): Promise<Vault> {
  const closers: (() => unknown)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const token = await openToken(await tokenSettings(config.token), log);
    closers.push(() => token.close());
    const database = openDatabase(config.databaseUrl, log);
    closers.push(() => database.destroy());
    const dataKeys = createDataKeys(token);
    closers.push(() => dataKeys.clear());
    const custody = createCustody(dataKeys);
    let service: KeptKey | undefined;
    const store = createKeyStore(database, () => requireService(service).publicKey);
    const journal = await openJournal({
      databaseUrl: config.databaseUrl,
      token,
      clock,
      log,
      reopened: () => store.changed(),
    });
    closers.push(() => journal.close());
    const parts = { database, custody, dataKeys, journal, clock };
    service = await openServiceKey(parts, rule);
    return {
      token,
      database,
      journal,
      dataKeys,
      custody,
      store,
      createKey: createKeyCreation({ ...parts, service }),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type Parts = { database: Database; custody: Custody; dataKeys: DataKeys; journal: Journal; clock: Clock };

async function openServiceKey(parts: Parts, rule: ServiceKeyRule): Promise<Key> {
  const stored = await readServiceKey(parts.database);
  if (stored !== undefined) return proven(stored, parts.custody);
  if (rule === "require") throw new Problem('This vault has no service key: run "keyvault init"');
  const create = createKeyCreation({ ...parts, service: undefined });
  await create(LOCAL, SERVICE_REQUEST, { tenant: VAULT_TENANT, purpose: "service", label: "service key" });
  return proven(requireService(await readServiceKey(parts.database)), parts.custody);
}

async function readServiceKey(database: Database): Promise<Key | undefined> {
  const row = await database("keys")
    .where({ request_key: SERVICE_REQUEST })
    .first<{ key_id: string } | undefined>("key_id");
  const joined = row && (await readKey(database, row.key_id));
  return joined && keyOf(joined);
}

async function proven(key: Key, custody: Custody): Promise<Key> {
  try {
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
