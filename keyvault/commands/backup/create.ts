import { Command, InvalidArgumentError } from "commander";
import { systemClock } from "../../clock.ts";
import { download, type RemoteOptions, withRemoteOptions } from "../remote/call.ts";

const CREATE = `Write a backup of a running vault to a file: SoftHSM's token (another module's is backed up by its vendor's means), all wrapped keys and the audit, encrypted to the recovery key and signed by the vault's service key, whose id "keyvault status" shows. Needs an admin's certificate, or one of the role backup. The PIN is not in it: keep it apart, or who opens the backup has the keys.

With --out-dir the file gets a name by the time and is there when it is whole and on disk; with --keep the oldest ones beyond that many are then removed.`;

type CreateOptions = RemoteOptions & { outDir?: string; keep?: number };

/** `keyvault backup create` */
export function backupCreateCommand(): Command {
  const command = new Command("create")
    .summary("write a backup of a running vault")
    .description(CREATE)
    .argument("[file]", "where it goes")
    .option("--out-dir <folder>", "the folder of backups it goes to, under a name by the time")
    .option("--keep <count>", "how many backups to leave in that folder", parseCount);
  return withRemoteOptions(command).action(runCreate);
}

async function runCreate(file: string | undefined, options: CreateOptions, command: Command): Promise<void> {
  const { outDir, keep, json } = options;
  if ((file === undefined) === (outDir === undefined)) command.error("give a file, or --out-dir");
  if (outDir === undefined && keep !== undefined) command.error("--keep goes with --out-dir");
  const take = (to: string): Promise<number> => download(options, "/v1/backup", to);
  const { addBackup } = await import("../../backup/folder.ts");
  const made =
    outDir === undefined
      ? { file: file ?? "", bytes: await take(file ?? ""), removed: [] }
      : await addBackup(outDir, { take, now: systemClock.now(), keep });
  process.stdout.write(
    json
      ? `${JSON.stringify(made)}\n`
      : [
          `Wrote ${made.file}, ${made.bytes} bytes`,
          ...made.removed.map((name) => `Removed ${name}`),
          "",
        ].join("\n"),
  );
}

function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || count < 1 || count > 10_000) {
    throw new InvalidArgumentError("Give a number from 1 to 10000.");
  }
  return count;
}
