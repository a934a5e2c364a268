import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { NO_INSPECTOR, spawnLogged } from "./process/part.ts";
import { makeFolder, writeAtomically } from "./state_folder.ts";
import { UserError } from "./user_error.ts";

/** The embedded stack's own secrets, and the files (mode 0600) in which its parts are given them. */
type StackSecrets = {
  databasePassword: string;
  vaultDatabasePassword: string;
  sealingKeyFile: string;
  operatorTokenFile: string;
  /** A password for this start alone. */
  passing(): string;
  /** Writes a secret that changes with every start, such as a connection string, and names its file. */
  write(name: string, value: string): Promise<string>;
};

const kept = ["database.password", "keyvault.password", "sealing.key", "operator.token"] as const;
type Kept = (typeof kept)[number];

const SECRET_BYTES = 32;

/**
 * Reads the secrets of a data folder, each 32 bytes in base64, and makes those that are missing when `isNew`.
 * Secrets that are gone cannot be made again: what they protect could not be read. Throws `UserError` naming
 * the file that is missing or damaged; nothing is changed then.
 */
export async function openSecrets(folder: string, isNew: boolean): Promise<StackSecrets> {
  const found = await Promise.all(kept.map(async (name) => [name, await readSecret(join(folder, name))]));
  const secrets = Object.fromEntries(found) as Record<Kept, Buffer | undefined>;
  for (const name of kept) {
    if (secrets[name] === undefined && !isNew) {
      throw new UserError(
        `${join(folder, name)} is missing, and the data cannot be read without it`,
        "Put the file back, or start afresh with another data folder",
      );
    }
  }
  await makeFolder(folder);
  async function keep(name: Kept): Promise<Buffer> {
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
    passing: () => asPassword(randomBytes(SECRET_BYTES)),
    async write(name, value) {
      const file = join(folder, name);
      await writeAtomically(file, `${value}\n`);
      return file;
    },
  };
}

/** The secret in letters that need no quoting in a URL. */
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

/**
 * How `keyvault init` is run. All of its environment is in `env`; what it prints is appended to `logFile`.
 */
type VaultInit = {
  program: string;
  env: Record<string, string | undefined>;
  logFile: string;
};

const GRACE_MS = 5000;
/** What the vault prints before a fault that a person can correct. */
const OWN_WORDS = /^keyvault: (.+)$/m;
/** What it says when it leaves the token alone: without its PIN file it could only be served sealed. */
const PIN_ABSENT = /^\{"step":"token",.*"absent":\["pin"\]/m;
/** The line of a stack trace that says what happened. */
const THROWN = /^(?:Uncaught )?(\w*Error\b.*)$/m;

/**
 * Makes what the vault needs; on a vault that has it, changes nothing. One without its PIN file is refused,
 * since nobody is here to unseal it. Throws `UserError` with the one line that says what went wrong, and
 * where the rest of it is.
 */
export async function initialiseVault({ program, env, logFile }: VaultInit): Promise<void> {
  const options = { env, graceMs: GRACE_MS, logFile };
  const { child, output } = await spawnLogged(
    process.execPath,
    [NO_INSPECTOR, program, "init", "--json"],
    options,
  );
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  const said = await output();
  if (code === 0 && !PIN_ABSENT.test(said)) return;
  const pinFile = join(env.KEYVAULT_DATA_DIR ?? "", "pin");
  const own = code === 0 ? `the PIN file ${pinFile} is not there; put it back` : OWN_WORDS.exec(said)?.[1];
  const reason = own ?? THROWN.exec(said)?.[1] ?? signal ?? `exit status ${code}`;
  const remedy = own === undefined ? "" : "Put that right, or start afresh with another folder: --data\n";
  throw new UserError(`The key vault could not be made ready: ${reason}`, `${remedy}Its log is ${logFile}`);
}
