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
 * Returns the child's start options for an existing token. Throws `TokenError` if a SoftHSM token is missing.
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
  const { module, label, pinFile, pinTries: tries, parameters, environment } = config;
  const home = config.managed ? await prepareSoftHsm(config.dir) : {};
  const place = { module, label, pinFile, tries, ...(parameters !== undefined && { parameters }) };
  return { place, environment: { ...environment, ...home } };
}

/**
 * Prepares the token and returns the labels of the keys that it generated, or none if the token was already
 * prepared. An interrupted run leaves nothing that a later run could mistake for a token. Throws `TokenError`
 * if a token exists without its PIN, or if the module refuses.
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

/** Throws a `TokenError` if a SoftHSM token exists without its PIN. */
export function requirePin({ managed, dir, pinFile }: TokenConfig): void {
  if (managed && existsSync(dir) && !existsSync(pinFile)) {
    throw new TokenError(
      `There is a token in ${dir}, but its PIN file ${pinFile} is missing: put that file back`,
    );
  }
}

async function provision(settings: TokenSettings, initialize: boolean, log: Logger): Promise<string[]> {
  const link = openTokenLink(settings.environment, log);
  try {
    const request = { kind: "provision", initialize, ...settings.place } as const;
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
