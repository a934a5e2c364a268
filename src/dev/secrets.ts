import { randomBytes } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Problem } from "./problem.ts";
import { writeAtomically } from "./state_folder.ts";

/** The embedded stack's own secrets, and the files (mode 0600) in which its parts are given them. */
export type StackSecrets = {
  databasePassword: string;
  vaultDatabasePassword: string;
  sealingKeyFile: string;
  operatorTokenFile: string;
  /** Writes a secret that changes with every start, such as a connection string, and names its file. */
  write(name: string, value: string): Promise<string>;
};

const kept = ["database.password", "keyvault.password", "sealing.key", "operator.token"] as const;

/**
 * Reads the secrets of a data folder, or makes them when `isNew`. Secrets that are gone cannot be made again: what they
 * protect could not be read. Throws `Problem`.
 */
export async function openSecrets(folder: string, isNew: boolean): Promise<StackSecrets> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const values = new Map<string, string>();
  for (const name of kept) {
    const present = await readSecret(join(folder, name));
    if (present === undefined && !isNew) {
      throw new Problem(
        `${join(folder, name)} is missing, and the data cannot be read without it`,
        "Put the file back, or start afresh with another data folder",
      );
    }
    const value = present ?? randomBytes(32).toString("base64");
    if (present === undefined) await writeAtomically(join(folder, name), `${value}\n`);
    values.set(name, value);
  }
  return {
    databasePassword: asPassword(values.get("database.password")),
    vaultDatabasePassword: asPassword(values.get("keyvault.password")),
    sealingKeyFile: join(folder, "sealing.key"),
    operatorTokenFile: join(folder, "operator.token"),
    async write(name, value) {
      const file = join(folder, name);
      await writeAtomically(file, `${value}\n`);
      return file;
    },
  };
}

/** The same secret in letters that need no quoting in a URL. */
function asPassword(base64: string | undefined): string {
  return Buffer.from(base64 ?? "", "base64").toString("hex");
}

async function readSecret(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}
