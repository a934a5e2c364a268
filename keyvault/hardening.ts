import { existsSync, readFileSync, type Stats, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Config } from "./config.ts";
import type { Logger } from "./log.ts";

/**
 * Prevents SIGUSR1 from opening Node's inspector. With it, every local user can read the process's secrets.
 */
export const NO_INSPECTOR = "--disable-sigusr1";

/**
 * Node options of the vault's processes. They disable the inspector and keep little garbage in memory. By
 * default, dead objects keep several times their size outside the heap, which Node does not count. The last
 * one gives each address of a host with several addresses 2 seconds to connect, instead of 500 ms.
 */
export const NODE_OPTIONS: readonly string[] = [
  NO_INSPECTOR,
  "--max-semi-space-size=8",
  "--heap-growing-percent=40",
  "--network-family-autoselection-attempt-timeout=2000",
];

const SHELL = "/bin/sh";
const SCRIPT = `ulimit -c 0 || { echo "keyvault: the limit for core files cannot be set; start it with ulimit -c 0 and node ${NO_INSPECTOR}" >&2; exit 1; }; exec "$@"`;

/**
 * Restarts this program in place, with the same process id, arguments and open streams, unless it is already
 * hardened: no inspector, little garbage, and a core file limit of 0, which child processes inherit. Call it
 * before the process reads any secret. On a system without a shell, only disables the inspector.
 */
export function hardenProcess(): void {
  process.on("SIGUSR1", () => {});
  const limit = coreLimit();
  const isHard =
    NODE_OPTIONS.every((option) => process.execArgv.includes(option)) && (limit === 0 || limit === undefined);
  if (isHard || process.execve === undefined || !existsSync(SHELL)) return;
  const options = process.execArgv.filter((option) => !NODE_OPTIONS.includes(option));
  const command = [process.execPath, ...NODE_OPTIONS, ...options, ...process.argv.slice(1)];
  process.execve(SHELL, ["sh", "-c", SCRIPT, "sh", ...command]);
}

type Folders = Pick<Config, "dataDir" | "tlsDir" | "token">;
type Exposed = Folders & Pick<Config, "tls" | "databaseUrl" | "migrationDatabaseUrl">;

const STICKY = 0o1000;
const OTHERS_WRITE = 0o002;

/**
 * Returns the vault's folders in which another user can replace files: folders that another user owns, and
 * folders that everybody may write to. Omits folders of root, because mounted volumes belong to root.
 */
export function exposedFolders({ dataDir, tlsDir, token }: Folders): string[] {
  const own = [0, process.getuid?.()];
  return [...new Set([dataDir, tlsDir, dirname(token.pinFile)])].filter((folder) => {
    const stats = statOf(folder);
    const isOpen = ((stats?.mode ?? 0) & (STICKY | OTHERS_WRITE)) === OTHERS_WRITE;
    return stats !== undefined && (isOpen || !own.includes(stats.uid));
  });
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

/** Remedy for a folder in which another user can replace files. */
export const EXPOSED_REMEDY =
  "Other users can replace the vault's files in this folder: make the vault's user its owner, with mode 0700";

/** Logs one warning at startup for each weakness of the running vault that the vault cannot fix. */
export function warnOfExposure(config: Exposed, log: Logger): void {
  const { tls, tlsDir } = config;
  if (config.migrationDatabaseUrl !== config.databaseUrl) {
    log.warn({
      event: "owner_url_present",
      remedy:
        "KEYVAULT_MIGRATION_DATABASE_URL allows changes to the audit, and a running vault does not need it: set it only for init, migrate and restore",
    });
  }
  const folders = new Set([tlsDir, dirname(tls.caFile)]);
  for (const file of [...folders]
    .map((folder) => join(folder, "ca.key"))
    .filter((path) => existsSync(path))) {
    log.warn({
      event: "authority_key_present",
      file,
      remedy:
        "This key issues administrator certificates, and a running vault does not need it: keep it elsewhere",
    });
  }
  for (const folder of exposedFolders(config)) {
    log.warn({ event: "folder_exposed", folder, remedy: EXPOSED_REMEDY });
  }
  if (coreLimit() !== 0) {
    log.warn({
      event: "core_files_possible",
      remedy:
        "A core file would contain keys: start the vault with a limit of 0 for core files (ulimit -c 0)",
    });
  }
  if (isDumpable()) {
    log.warn({
      event: "memory_readable",
      remedy: "Other programs of the vault's user can read its memory: run the vault as a user of its own",
    });
  }
}

/** Returns the hard limit for core files in bytes: `Infinity` for no limit, `undefined` if unknown. */
function coreLimit(): number | undefined {
  try {
    const limits = readFileSync("/proc/self/limits", "utf8");
    const [, hard] = /^Max core file size\s+\S+\s+(\S+)/m.exec(limits) ?? [];
    return hard === undefined || hard === "unlimited" ? Number.POSITIVE_INFINITY : Number(hard);
  } catch {
    return undefined;
  }
}

/**
 * Returns whether other programs of the same user can read this process's memory. They cannot if root owns
 * `/proc/self/mem`.
 */
function isDumpable(): boolean {
  try {
    return process.getuid?.() === 0 || statSync("/proc/self/mem").uid !== 0;
  } catch {
    return true;
  }
}
