import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import type { TokenConfig } from "../config.ts";
import { makeFolderDurably, makePrivateFolder, writeFileDurably } from "../files.ts";
import type { Logger } from "../log.ts";
import type { TokenSettings } from "./client.ts";
import { openTokenLink } from "./link.ts";
import { TokenError } from "./messages.ts";
import { prepareSoftHsm } from "./softhsm.ts";

const PIN_BYTES = 32;
const PROVISION_DEADLINE_MS = 60_000;

/**
 * How the child is started for a token that is in place. Throws a `TokenError` when a SoftHSM token is not.
 */
export async function tokenSettings(config: TokenConfig): Promise<TokenSettings> {
  if (config.managed && !existsSync(config.dir)) {
    throw new TokenError(
      `There is no token in ${config.dir}: restore it, or start a new vault with "keyvault init" on an empty database`,
    );
  }
  return settingsOf(config);
}

async function settingsOf(config: TokenConfig): Promise<TokenSettings> {
  const { module, label, pinFile, parameters, environment } = config;
  const home = config.managed ? await prepareSoftHsm(config.dir) : {};
  const place = { module, label, pinFile, ...(parameters !== undefined && { parameters }) };
  return { place, environment: { ...environment, ...home } };
}

/**
 * Makes the token ready and returns the labels of the keys it generated: none when it was ready before. A
 * SoftHSM token is made aside and moved into place when it is whole, so a run that was cut off leaves nothing
 * that a later run could mistake for a token.
 *
 * Throws `TokenError` when there is a token but not its PIN, or the module refuses
 */
export async function installToken(config: TokenConfig, log: Logger): Promise<string[]> {
  if (!config.managed) return provision(await tokenSettings(config), false, log);
  requirePin(config);
  if (existsSync(config.dir)) return [];
  if (!existsSync(config.pinFile)) await writePin(config.pinFile);
  return makeFolderDurably(config.dir, async (aside) =>
    provision(await settingsOf({ ...config, dir: aside }), true, log),
  );
}

/** Throws a `TokenError` when there is a SoftHSM token but not its PIN. */
export function requirePin({ managed, dir, pinFile }: TokenConfig): void {
  if (managed && existsSync(dir) && !existsSync(pinFile)) {
    throw new TokenError(`There is a token in ${dir}, but its PIN file ${pinFile} is gone: put it back`);
  }
}

async function provision(settings: TokenSettings, initialise: boolean, log: Logger): Promise<string[]> {
  const link = openTokenLink(settings.environment, log);
  try {
    const request = { kind: "provision", initialise, ...settings.place } as const;
    return (await link.request(request, PROVISION_DEADLINE_MS)).created;
  } finally {
    link.kill();
    await link.ended;
  }
}

async function writePin(path: string): Promise<void> {
  await makePrivateFolder(dirname(path));
  await writeFileDurably(path, `${randomBytes(PIN_BYTES).toString("hex")}\n`);
}
