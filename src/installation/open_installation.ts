import type { Clock } from "../clock.ts";
import { type Database, openDatabase } from "../db/database.ts";
import type { Reader } from "../events/published.ts";
import type { Logger } from "../log.ts";
import type { VaultClient } from "../vault/client.ts";
import { createInstallation, type Installation } from "./installation.ts";
import { apiPart } from "./parts/api_part.ts";
import { eventsPart, webhooksPart } from "./parts/event_parts.ts";
import { ledgerPart } from "./parts/ledger_part.ts";
import { mailPart } from "./parts/mail_part.ts";
import { operatorsPart } from "./parts/operators_part.ts";
import { vaultPart } from "./parts/vault_part.ts";
import { workersPart } from "./parts/workers_part.ts";

/** What an installation is looked at with. */
export type OpenDeps = {
  url: string;
  /** The database as calls reach it. */
  db: Database;
  readers: readonly Reader[];
  vault: Pick<VaultClient, "health">;
  /** The file with the certificate by which the vault knows this process. */
  certificateFile: string;
  version: string;
  clock: Clock;
  log: Logger;
  /** Seconds for which a reading is given again. */
  freshSeconds?: number;
};

/** An installation with connections of its own, so that looking at it takes none from calls. */
export type OpenInstallation = Installation & { close(): Promise<void> };

const CONNECTIONS = 4;
/** Longer than anybody waits for a part, so that one reading is shared by those who look meanwhile. */
const STATEMENT_MS = 5_000;
const SILENCE_MS = STATEMENT_MS + 2_000;

/** Opens the parts of this installation. They connect when they are first read. */
export function openInstallation({ url, ...deps }: OpenDeps): OpenInstallation {
  const { clock, log, freshSeconds } = deps;
  const database = openDatabase({
    url,
    name: "deputize-installation",
    max: CONNECTIONS,
    statementMs: STATEMENT_MS,
    silenceMs: SILENCE_MS,
    onError: (error) => log.debug({ err: error }, "database connection lost"),
  });
  const given = { ...deps, database };
  const parts = [
    apiPart(given),
    vaultPart(given),
    workersPart(given),
    eventsPart(given),
    webhooksPart(given),
    mailPart(given),
    operatorsPart(given),
    ledgerPart(given),
  ];
  const installation = createInstallation({
    parts,
    clock,
    log,
    ...(freshSeconds !== undefined && { freshSeconds }),
  });
  return { ...installation, close: () => database.destroy() };
}
