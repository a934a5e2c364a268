import { LedgerMismatch } from "./audit/writer_connection.ts";
import type { ComparedClock } from "./clock.ts";
import type { Config } from "./config.ts";
import { openDatabase } from "./db/database.ts";
import { followDatabase, showClockOffset } from "./db/followed_clock.ts";
import { requireTables } from "./db/tables.ts";
import { VaultError } from "./errors.ts";
import { createApp } from "./http/app.ts";
import { serveHealth, serveTls } from "./http/server.ts";
import { createSealing, type Sealing } from "./lifecycle/sealing.ts";
import type { Logger } from "./log.ts";
import { createMetrics, type Metrics, showState } from "./metrics.ts";
import { createOpening, type Opening } from "./opening.ts";
import { createReadiness, createStatusReading } from "./status.ts";
import { acceptsBy, openTrust, type Trust } from "./tls/trust.ts";
import { openToken, type Token } from "./token/client.ts";
import { tokenSettings } from "./token/install.ts";
import type { Vault } from "./vault.ts";

/** A running vault that answers calls. */
export type Serving = {
  port: number;
  healthPort: number | undefined;
  token: Token;
  sealing: Sealing;
  trust: Trust;
  /** Returns the open vault. Throws `VaultError sealed` if the vault has not been opened yet. */
  vault(): Vault;
  /** Waits for running calls, then closes the vault. Call it once. */
  stop(): Promise<void>;
};

/**
 * Checks the vault's tables, opens the vault and starts to listen. With `"database"`, its clock follows the
 * database's clock. Leaves the vault sealed if there is no PIN
 * file, if the token refuses its PIN, or if the audit chain is broken. Rejects with a `UserError` if a part
 * is missing or does not belong to the others, or with the error of the listening port, and then closes
 * everything that it opened.
 */
export async function serve(config: Config, time: ComparedClock | "database", log: Logger): Promise<Serving> {
  await requireTables(config.databaseUrl, log);
  const closers: (() => unknown)[] = [];
  const stop = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const { clock, clockFault } = await openClock(config, time, log, closers);
    const metrics = createMetrics();
    if (time === "database") showClockOffset(metrics, clock);
    const token = await openToken(await tokenSettings(config.token), log, "seal", metrics.countLogin);
    closers.push(() => token.close());
    const trust = await openTrust(config.tls, log);
    closers.push(() => trust.stop());
    const opening = createOpening({ config, clock, log, token, accepts: acceptsBy(trust), metrics });
    closers.push(() => opening.stop());
    if (token.sealed() === undefined) await openOrSeal(opening, token, log);
    const listening = await listen(
      { config, clock, clockFault, log, token, opening, trust, metrics },
      closers,
    );
    return { ...listening, token, trust, vault: () => openedVault(opening), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type OpenClock = { clock: ComparedClock; clockFault: () => string | undefined };

async function openClock(
  { databaseUrl }: Config,
  time: ComparedClock | "database",
  log: Logger,
  closers: (() => unknown)[],
): Promise<OpenClock> {
  if (time !== "database") return { clock: time, clockFault: () => undefined };
  const clock = await followDatabase(databaseUrl, log);
  closers.push(() => clock.stop());
  return { clock, clockFault: clock.fault };
}

/**
 * Seals the vault if its audit chain is broken, so that it can report the broken chain but trusts none of it.
 */
async function openOrSeal(opening: Opening, token: Token, log: Logger): Promise<void> {
  try {
    await opening.open();
  } catch (error) {
    if (!(error instanceof LedgerMismatch)) throw error;
    log.error({ event: "chain_broken", reason: error.message });
    token.seal("chain_broken");
  }
}

type Parts = OpenClock & {
  config: Config;
  log: Logger;
  token: Token;
  opening: Opening;
  trust: Trust;
  metrics: Metrics;
};

async function listen(
  { config, clock, clockFault, log, token, opening, trust, metrics }: Parts,
  closers: (() => unknown)[],
): Promise<Pick<Serving, "port" | "healthPort" | "sealing">> {
  const elapsed = (): number => performance.now();
  const parts = () => {
    const opened = opening.opened();
    if (opened === undefined) return undefined;
    const { rewrapping, retirement } = opened;
    const { journal, service } = opened.vault;
    return { token, journal, service, rewrapping, retirement };
  };
  const journal = () => parts()?.journal;
  const open = async () => (await opening.open()).vault.journal;
  const sealing = createSealing({ token, open, journal, clock, elapsed, log });
  const whenOpen = <T>(given: T): T | undefined => (sealing.state() === undefined ? given : undefined);
  const database = openDatabase(config.databaseUrl, log, 1);
  closers.push(() => database.destroy());
  const readStatus = createStatusReading({ database, token, sealing, opened: parts });
  const readiness = createReadiness(() => whenOpen(parts()), elapsed, clockFault);
  showState(metrics, { readiness, token, material: trust.material });
  const operations = () => whenOpen(opening.opened()?.operations);
  const app = createApp({ operations, readiness, journal, sealing, readStatus, trust, metrics, clock, log });
  const tls = await serveTls(app, trust, { ...config.listen, limits: config.connections }, log);
  closers.push(() => tls.stop());
  const health = config.health && (await serveHealth({ readiness, metrics }, config.health));
  closers.push(() => health?.stop());
  return { port: tls.port, healthPort: health?.port, sealing };
}

function openedVault(opening: Opening): Vault {
  const opened = opening.opened();
  if (opened === undefined) throw new VaultError("sealed");
  return opened.vault;
}
