import { existsSync } from "node:fs";
import type { Clock } from "./clock.ts";
import type { Config } from "./config.ts";
import { openDatabase } from "./db/database.ts";
import { asOwner, migrate } from "./db/migrate.ts";
import { UserError } from "./errors.ts";
import { makePrivateFolder } from "./files.ts";
import type { Logger } from "./log.ts";
import { requireTls } from "./tls/inventory.ts";
import { installTls } from "./tls/issue.ts";
import { openToken } from "./token/client.ts";
import { installToken, requirePin, tokenSettings } from "./token/install.ts";
import { PinWithheld } from "./token/messages.ts";
import { openVault, SERVICE_REQUEST, type VaultParts } from "./vault.ts";

/** A completed step of `keyvault init`, with the names of the things that it created. */
export type InitStep = {
  step: "database" | "token" | "service key" | "certificates";
  created: string[];
  /**
   * Things that an admin removed, or that cannot be created without a removed thing. Examples are the token's
   * `pin`, and certificates if the authority's key is not in its folder. `accepted pin` means that the token
   * refused the PIN, or that the vault did not try it.
   */
  absent?: string[];
};

/**
 * Options of {@link initialize}. Calls `report` after each step. Set `makesPin` to false if a new vault's PIN
 * comes from elsewhere, and `makesCertificates` to false if the certificates do.
 */
export type InitOptions = {
  report?: (step: InitStep) => void;
  makesPin?: boolean;
  makesCertificates?: boolean;
};

/**
 * Creates everything that a vault needs and does not have yet: tables, token with its PIN and keys, service
 * key, TLS authority and first certificates. Each step completes or leaves nothing behind, so a second run
 * can complete an interrupted one. Does not change a complete vault, even if the authority's key or the PIN
 * file was removed or the token refuses its PIN. Detects conflicts between existing parts before it creates
 * anything. Throws `UserError` if existing parts do not belong together, or if a new vault needs a PIN and
 * `makesPin` is false.
 */
export async function initialize(
  config: Config,
  clock: Clock,
  log: Logger,
  { report = () => {}, makesPin = true, makesCertificates = true }: InitOptions = {},
): Promise<void> {
  if (makesCertificates) await requireTls(config.tlsDir);
  const isSealed =
    !existsSync(config.token.pinFile) &&
    (await asOwner(config, () => hasServiceKey(config.migrationDatabaseUrl, log)));
  if (isSealed) {
    await tokenSettings(config.token);
  } else {
    requirePin(config.token);
    if (!makesPin && !existsSync(config.token.pinFile)) {
      throw new UserError(
        `A new vault needs its PIN, and there is no file ${config.token.pinFile}: write 32 random bytes in hexadecimal to this file`,
      );
    }
  }
  await makePrivateFolder(config.dataDir);
  report({ step: "database", created: await migrate(config, log) });
  if (isSealed) {
    report({ step: "token", created: [], absent: ["pin"] });
    report({ step: "service key", created: [] });
  } else {
    const records = await countAudit(config.migrationDatabaseUrl, log);
    report({ step: "token", created: records === 0 ? await installToken(config.token, log) : [] });
    report({ step: "service key", ...(await requireServiceKey({ config, clock, log })) });
  }
  if (!makesCertificates) return;
  const { created, absent } = await installTls(config.tlsDir, config.serverNames, clock.now());
  report({ step: "certificates", created, ...(absent.length > 0 && { absent }) });
}

/** A complete vault needs no login here, and `serve` then starts sealed. */
async function requireServiceKey(
  parts: Omit<VaultParts, "token">,
): Promise<Pick<InitStep, "created" | "absent">> {
  try {
    return { created: await makeServiceKey(parts) };
  } catch (error) {
    if (!(error instanceof PinWithheld)) throw error;
    if (!(await hasServiceKey(parts.config.migrationDatabaseUrl, parts.log))) throw error;
    return { created: [], absent: ["accepted pin"] };
  }
}

async function makeServiceKey(parts: Omit<VaultParts, "token">): Promise<string[]> {
  const token = await openToken(await tokenSettings(parts.config.token), parts.log);
  try {
    const vault = await openVault({ ...parts, token }, "create");
    await vault.close();
    return vault.serviceKeyMade ? ["service key"] : [];
  } finally {
    await token.close();
  }
}

async function hasServiceKey(url: string, log: Logger): Promise<boolean> {
  const database = openDatabase(url, log, 1);
  try {
    if (!(await database.schema.hasTable("keys"))) return false;
    const key = await database("keys").where({ request_key: SERVICE_REQUEST }).first("key_id");
    return key !== undefined;
  } finally {
    await database.destroy();
  }
}

async function countAudit(url: string, log: Logger): Promise<number> {
  const database = openDatabase(url, log, 1);
  try {
    const row = await database("audit").max<{ max: number | null }[]>("seq as max");
    return row[0]?.max ?? 0;
  } finally {
    await database.destroy();
  }
}
