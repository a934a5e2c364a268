import type { Clock } from "../clock.ts";
import type { ConnectionSettings } from "../db/connection.ts";
import { openDatabase } from "../db/database.ts";
import type { Logger } from "../log.ts";
import type { VaultClient } from "../vault/client.ts";
import { createInstallation, type Installation } from "./installation.ts";
import {
  apiPart,
  eventsPart,
  ledgerPart,
  mailPart,
  operatorsPart,
  vaultPart,
  webhooksPart,
  workersPart,
} from "./parts.ts";
import { readers } from "./readers.ts";

/** Dependencies for reading an installation. */
export type OpenDeps = {
  /** URL of the API's database. */
  url: string;
  sizes: { installation: number };
  opened?: ConnectionSettings["opened"];
  vault: Pick<VaultClient, "health">;
  /** The certificate that identifies this process to the vault. */
  certificateFile: string;
  version: string;
  clock: Clock;
  log: Logger;
  /** Seconds for which a result is reused. */
  freshSeconds?: number | undefined;
};

/** An installation with its own database connections, so that reading its state does not slow down calls. */
export type OpenInstallation = Installation & { close(): Promise<void> };

/** Longer than any caller waits for a part, so that later callers share the running query. */
const STATEMENT_MS = 5_000;
const SILENCE_MS = STATEMENT_MS + 2_000;

/** Creates the readers of this installation's parts. They connect on the first read. */
export function openInstallation({ url, opened, sizes, ...deps }: OpenDeps): OpenInstallation {
  const { clock, log, freshSeconds } = deps;
  const database = openDatabase({
    url,
    opened,
    name: "deputize-installation",
    max: sizes.installation,
    statementMs: STATEMENT_MS,
    silenceMs: SILENCE_MS,
    onError: (error) => log.debug({ err: error }, "database connection lost"),
  });
  const given = { ...deps, database, readers };
  const makeParts = [
    apiPart,
    vaultPart,
    workersPart,
    eventsPart,
    webhooksPart,
    mailPart,
    operatorsPart,
    ledgerPart,
  ];
  const parts = makeParts.map((makePart) => makePart(given));
  const installation = createInstallation({ parts, clock, log, freshSeconds });
  return { ...installation, close: () => database.destroy() };
}
