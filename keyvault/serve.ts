import { keepHeads } from "./audit/heads.ts";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { migrate } from "./db/migrate.ts";
import { createApp } from "./http/app.ts";
import { type Listening, serveHealth, serveTls } from "./http/server.ts";
import type { Logger } from "./log.ts";
import { openOperations } from "./operations.ts";
import { createReadiness } from "./readiness.ts";
import { openTrust, type Trust } from "./tls/trust.ts";
import { openVault, type Vault } from "./vault.ts";

/** A vault that answers calls. */
export type Serving = {
  port: number;
  healthPort: number | undefined;
  vault: Vault;
  trust: Trust;
  /** Ends the calls in flight, then the vault. Safe to call once. */
  stop(): Promise<void>;
};

/**
 * Opens the vault, brings its tables up to date and listens. Rejects with a `Problem` when a part is missing or does not belong to the
 * others, or with the error of the port; whatever was opened is closed again.
 */
export async function serve(config: Config, clock: Clock, log: Logger): Promise<Serving> {
  await migrate(config.databaseUrl, log);
  const vault = await openVault(config, clock, log, "require");
  const trust = await openTrust(config.tls, log).catch(async (error: unknown) => {
    await vault.close();
    throw error;
  });
  const listening: Listening[] = [];
  const open = openOperations(vault, clock, config, log);
  const heads = keepHeads({ journal: vault.journal, clock, log, file: config.auditHeadsFile });
  const stop = async (): Promise<void> => {
    await Promise.all(listening.map((server) => server.stop()));
    await open.stop();
    trust.stop();
    await heads.stop();
    await vault.close();
  };
  try {
    const readiness = createReadiness(vault.token, vault.journal, () => performance.now());
    const app = createApp({
      operations: open.operations,
      readiness,
      journal: vault.journal,
      trust,
      clock,
      log,
    });
    const tls = await serveTls(app, trust, { ...config.listen, limits: config.connections }, log);
    listening.push(tls);
    const health = config.health && (await serveHealth(readiness, config.health));
    if (health !== undefined) listening.push(health);
    return { port: tls.port, healthPort: health?.port, vault, trust, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
