import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { NO_INSPECTOR, spawnLogged } from "./process/part.ts";
import { makeFolder, writeAtomically } from "./state_folder.ts";
import { UserError } from "./user_error.ts";

/** Secrets of the stack. Its parts read the secrets from files with mode 0600. */
type StackSecrets = {
  databasePassword: string;
  vaultDatabasePassword: string;
  sealingKeyFile: string;
  operatorTokenFile: string;
  /** Returns a new password at each call. */
  temporaryPassword(): string;
  /** Writes a secret that is new at every start, such as a connection string. Returns the file's path. */
  write(name: string, value: string): Promise<string>;
};

const SECRET_NAMES = ["database.password", "keyvault.password", "sealing.key", "operator.token"] as const;
type SecretName = (typeof SECRET_NAMES)[number];

const SECRET_BYTES = 32;

/**
 * Returns a data folder's secrets, each 32 bytes in base64. Creates missing secrets only if `isNew`: in an
 * old folder, the data that a lost secret protects would stay unreadable. Throws `UserError` with the missing
 * or damaged file, before it changes anything.
 */
export async function openSecrets(folder: string, isNew: boolean): Promise<StackSecrets> {
  const found = await Promise.all(
    SECRET_NAMES.map(async (name) => [name, await readSecret(join(folder, name))]),
  );
  const secrets = Object.fromEntries(found) as Record<SecretName, Buffer | undefined>;
  for (const name of SECRET_NAMES) {
    if (secrets[name] === undefined && !isNew) {
      throw new UserError(
        `${join(folder, name)} is missing, and the data cannot be read without it`,
        "Put the file back, or start afresh with another data folder",
      );
    }
  }
  await makeFolder(folder);
  async function keep(name: SecretName): Promise<Buffer> {
    const present = secrets[name];
    if (present !== undefined) return present;
    const made = randomBytes(SECRET_BYTES);
    await writeAtomically(join(folder, name), `${made.toString("base64")}\n`);
    return made;
  }
  const databasePassword = asPassword(await keep("database.password"));
  const vaultDatabasePassword = asPassword(await keep("keyvault.password"));
  await keep("sealing.key");
  await keep("operator.token");
  return {
    databasePassword,
    vaultDatabasePassword,
    sealingKeyFile: join(folder, "sealing.key"),
    operatorTokenFile: join(folder, "operator.token"),
    temporaryPassword: () => asPassword(randomBytes(SECRET_BYTES)),
    async write(name, value) {
      const file = join(folder, name);
      await writeAtomically(file, `${value}\n`);
      return file;
    },
  };
}

/** Encodes a secret in letters and digits, which a URL can contain without escapes. */
function asPassword(secret: Buffer): string {
  return secret.toString("hex");
}

async function readSecret(path: string): Promise<Buffer | undefined> {
  let text: string;
  try {
    text = (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
  const secret = Buffer.from(text, "base64");
  if (secret.length !== SECRET_BYTES || secret.toString("base64") !== text) {
    throw new UserError(
      `${path} is damaged: it must hold ${SECRET_BYTES} bytes in base64`,
      "Put back a copy of the file, or start afresh with another data folder",
    );
  }
  return secret;
}

/** Settings of `keyvault init`. `env` is its complete environment. Its output is appended to `logFile`. */
type VaultInit = {
  program: string;
  env: Record<string, string | undefined>;
  logFile: string;
};

const GRACE_MS = 5000;
/** Matches the vault's error message for a problem that a person can correct. */
const VAULT_MESSAGE = /^keyvault: (.+)$/m;
/** Output of `init` for a token without a PIN file. Such a vault could only start sealed. */
const PIN_ABSENT = /^\{"step":"token",.*"absent":\["pin"\]/m;
/** Matches the line of a stack trace that contains the error's message. */
const THROWN = /^(?:Uncaught )?(\w*Error\b.*)$/m;

/**
 * Initializes the vault, or changes nothing if it is already initialized. Rejects a token without a PIN file,
 * since nobody could unseal it. Throws `UserError` with the reason and the path of the log.
 */
export async function initializeVault({ program, env, logFile }: VaultInit): Promise<void> {
  const options = { env, graceMs: GRACE_MS, logFile };
  const { child, output } = await spawnLogged(
    process.execPath,
    [NO_INSPECTOR, program, "init", "--json"],
    options,
  );
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  const log = await output();
  if (code === 0 && !PIN_ABSENT.test(log)) return;
  const pinFile = join(env.KEYVAULT_DATA_DIR ?? "", "pin");
  const message =
    code === 0 ? `the PIN file ${pinFile} is not there; put it back` : VAULT_MESSAGE.exec(log)?.[1];
  const reason = message ?? THROWN.exec(log)?.[1] ?? signal ?? `exit status ${code}`;
  const remedy = message === undefined ? "" : "Put that right, or start afresh with another folder: --data\n";
  throw new UserError(`The key vault could not be made ready: ${reason}`, `${remedy}Its log is ${logFile}`);
}
