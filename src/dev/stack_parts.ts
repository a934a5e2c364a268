import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CANONICAL_SCOPES } from "../protocol/documents/scope_vocabulary.ts";
import { NO_INSPECTOR, type Part, processPart } from "./process/part.ts";

const EVERY_MS = 25;

/** Ports of the stack. Ports that no user needs to know are free ports, chosen at each start. */
export type StackPorts = {
  api: number;
  apiHealth: number;
  apiOperator: number;
  vault: number;
  vaultHealth: number;
  workerHealth: number;
  operatorHealth: number;
};

/** Paths of the programs, of the stack's files, and of the files with its secrets. */
export type StackPaths = {
  program: string;
  vaultProgram: string;
  vaultData: string;
  pkcs11Module: string | undefined;
  databaseUrlFile: string;
  vaultDatabaseUrlFile: string;
  vaultMigrationUrlFile: string;
  sealingKeyFile: string;
  operatorTokenFile: string;
  manifests: string;
  status: string;
  credentials: string;
};

/** Command-line option that changes the API's port. */
export const API_PORT_SETTING = "--port";
/** Sign-in codes per 15 minutes. High because developers run the tour often. */
const SIGN_INS = "1000";
/** Proofs per minute, and agents per day. High because some tests send many mutated proofs. */
const PROOFS = "60000";
const AGENTS = "10000";
const LOOPBACK = "127.0.0.0/8";
/** Scopes that may be granted on a developer's machine: every canonical scope and every custom one. */
const CEILING = [...CANONICAL_SCOPES, "custom:*"].join(",");

type Environment = Record<string, string | undefined>;

/** Choices at the start: `inherited` variables for every part, and `credits` of new accounts in micro-USD. */
type Chosen = {
  inherited: Environment;
  aliases: readonly string[];
  credits: number | undefined;
  ownerEmail: string;
  events: Environment;
};

/** Returns the processes that start after Postgres. Each process has a separate, complete environment. */
export function stackParts(
  ports: StackPorts,
  paths: StackPaths,
  { inherited, aliases, credits, ownerEmail, events }: Chosen,
) {
  const baseUrl = `http://127.0.0.1:${ports.api}`;
  const part = (about: {
    name: string;
    title: string;
    health: number;
    args: string[];
    env: Environment;
    ports?: Part["ports"];
  }): Part =>
    processPart({
      name: about.name,
      title: about.title,
      command: process.execPath,
      args: [NO_INSPECTOR, ...about.args],
      env: { ...inherited, ...about.env },
      ready: (signal) => untilAnswers(`http://127.0.0.1:${about.health}/readyz`, signal),
      ...(about.ports ? { ports: about.ports } : {}),
    });
  const database = { DATABASE_URL_FILE: paths.databaseUrlFile, SEALING_KEY_FILE: paths.sealingKeyFile };

  return {
    baseUrl,
    vault: part({
      name: "keyvault",
      title: "Key vault on its PKCS#11 token",
      health: ports.vaultHealth,
      args: [paths.vaultProgram, "serve"],
      env: vaultEnvironment(ports, paths),
    }),
    api: part({
      name: "api",
      title: `API on ${baseUrl}`,
      health: ports.apiHealth,
      args: [paths.program, "api"],
      ports: [{ port: ports.api, setting: API_PORT_SETTING }],
      env: {
        ...database,
        DEVELOPMENT: "true",
        PORT: String(ports.api),
        BASE_URL: baseUrl,
        SERVICE_WORD_ALIASES: aliases.join(","),
        HEALTH_PORT: String(ports.apiHealth),
        VAULT_URL: `https://127.0.0.1:${ports.vault}`,
        VAULT_CA_FILE: join(paths.vaultData, "tls", "ca.pem"),
        VAULT_CERT_FILE: join(paths.vaultData, "tls", "api.pem"),
        VAULT_KEY_FILE: join(paths.vaultData, "tls", "api.key"),
        OPERATOR_TOKEN_FILE: paths.operatorTokenFile,
        OPERATOR_PORT: String(ports.apiOperator),
        ACCOUNT_CEILING: CEILING,
        ALPHA_CREDITS_MICRO_USD: credits?.toString(),
        SERVICE_ADMINISTRATORS: ownerEmail,
        SEND_CODE_PER_IP: SIGN_INS,
        SEND_CODE_PER_ADDRESS: SIGN_INS,
        SEND_CODE_PER_DAY: SIGN_INS,
        VERIFY_CODE_PER_IP: SIGN_INS,
        PRESENT_PER_MINUTE: PROOFS,
        REFUSED_PROOFS_PER_MINUTE: PROOFS,
        AGENTS_PER_DAY: AGENTS,
        CHANGES_PER_MINUTE: PROOFS,
        REQUESTS_PER_DAY: PROOFS,
        WEBHOOK_ALLOWED_CIDRS: LOOPBACK,
      },
    }),
    worker: part({
      name: "worker",
      title: "Worker for events and webhooks",
      health: ports.workerHealth,
      args: [paths.program, "worker"],
      env: {
        ...database,
        DEVELOPMENT: "true",
        HEALTH_PORT: String(ports.workerHealth),
        WEBHOOK_ALLOWED_CIDRS: LOOPBACK,
        ...events,
        LEASE_SECONDS: "3",
        CLAIM_SECONDS: "20",
      },
    }),
    operator: part({
      name: "operator",
      title: `Operator on ${shortest(paths.manifests)}`,
      health: ports.operatorHealth,
      args: [paths.program, "operator"],
      env: {
        API_URL: baseUrl,
        OPERATOR_API_URL: `http://127.0.0.1:${ports.apiOperator}`,
        CONSOLE_URL: `${baseUrl}/console`,
        OPERATOR_TOKEN_FILE: paths.operatorTokenFile,
        MANIFESTS_DIR: paths.manifests,
        STATUS_DIR: paths.status,
        SECRETS_DIR: paths.credentials,
        HEALTH_PORT: String(ports.operatorHealth),
      },
    }),
  };
}

/** Returns a path relative to the current folder, or the unchanged path if it is outside that folder. */
function shortest(path: string): string {
  const fromHere = relative("", path);
  return fromHere.startsWith("..") ? path : fromHere;
}

/** Returns the environment for every command of the vault's program. */
export function vaultEnvironment(ports: StackPorts, paths: StackPaths): Environment {
  return {
    KEYVAULT_DATA_DIR: paths.vaultData,
    KEYVAULT_PKCS11_MODULE: paths.pkcs11Module,
    KEYVAULT_DATABASE_URL_FILE: paths.vaultDatabaseUrlFile,
    KEYVAULT_PORT: String(ports.vault),
    KEYVAULT_HEALTH_PORT: String(ports.vaultHealth),
    KEYVAULT_CEILING: CEILING,
  };
}

/** Polls `url` until a response has a success status. Rejects with the last failure if `signal` aborts. */
export async function untilAnswers(url: string, signal: AbortSignal): Promise<void> {
  let last: unknown;
  while (!signal.aborted) {
    try {
      const response = await fetch(url, { signal });
      await response.body?.cancel();
      if (response.ok) {
        return;
      }
      last = new Error(`${url} answered ${response.status}`);
    } catch (error) {
      last = signal.aborted ? (last ?? error) : error;
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  throw last ?? signal.reason;
}
