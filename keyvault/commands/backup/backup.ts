import { existsSync } from "node:fs";
import { Command } from "commander";
import { createRecoveryKey } from "../../backup/encrypted_stream.ts";
import { loadConfig } from "../../config.ts";
import { UserError } from "../../errors.ts";
import { writeFileDurably } from "../../files.ts";
import { backupCreateCommand } from "./create.ts";
import { backupCheckCommand, backupRestoreCommand } from "./restore.ts";

const KEY = `Make the key pair that backups are encrypted to. The public half stays with the vault; take the private half away from this machine, it opens every backup.`;

/** `keyvault backup …` */
export function backupCommand(): Command {
  const key = new Command("key")
    .summary("make the recovery key")
    .description(KEY)
    .argument("<file>", "where the private half goes")
    .option("--json", "print JSON")
    .action(makeKey);
  return new Command("backup")
    .summary("write backups, check them and put them back")
    .addCommand(key)
    .addCommand(backupCreateCommand())
    .addCommand(backupCheckCommand())
    .addCommand(backupRestoreCommand());
}

async function makeKey(file: string, { json }: { json?: true }): Promise<void> {
  const { recoveryKeyFile } = loadConfig();
  for (const path of [file, recoveryKeyFile]) {
    if (existsSync(path)) {
      throw new UserError(`${path} exists already: backups made so far need it, so it is not overwritten`);
    }
  }
  const { publicKey, privateKey } = createRecoveryKey();
  await writeFileDurably(file, privateKey);
  await writeFileDurably(recoveryKeyFile, publicKey, 0o644);
  const made = { public: recoveryKeyFile, private: file };
  process.stdout.write(
    json ? `${JSON.stringify(made)}\n` : `Made ${recoveryKeyFile}. Take ${file} away from this machine.\n`,
  );
}
