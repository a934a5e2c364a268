import { Command, Option } from "commander";
import type { Origin } from "../../backup/check.ts";
import type { BackupSource } from "../../backup/lines.ts";
import type { Restored } from "../../backup/restore.ts";
import { loadConfig } from "../../config.ts";
import { UserError } from "../../errors.ts";
import { createLog } from "../../log.ts";
import { columnsOf, foldLines } from "../display/wrap.ts";
import { openNamedFile, readNamedFile } from "../named_file.ts";

const RESTORE = `Put a backup back where no vault is: no token in the data folder, an empty database. The PIN file goes to its place by hand, and "keyvault init" then makes new certificates unless the old ones are put back too.

The backup is read twice: nothing is written before its signature was checked. Without --service-key the id of the key that signed it is shown and nothing restored: compare that with the id that you noted, then pass it.

A backup holds SoftHSM's token; another module's is put back by its vendor's means.

A backup of an earlier version is brought up to date on the way, as an upgrade of that vault would have done; one of a newer version is refused.

Afterwards "keyvault audit verify" proves that token, database and chain belong together.`;

const CHECK = `Read a backup to its end and check it as "keyvault backup restore" does before it writes anything: it opens with the recovery key, is whole, is signed by the service key, and this version can restore it. Writes nothing and needs no setting, token or database.

Exit code: 0 it would be restored, 1 it would not.`;

type ReadOptions = { json?: true; recoveryKey: string; serviceKey?: string; unsigned?: true };

/** `keyvault backup restore` */
export function backupRestoreCommand(): Command {
  const command = new Command("restore").summary("put a backup back").description(RESTORE);
  return withReadOptions(command).action(runRestore);
}

/** `keyvault backup check` */
export function backupCheckCommand(): Command {
  const command = new Command("check").summary("check a backup without restoring it").description(CHECK);
  return withReadOptions(command).action(runCheck);
}

function withReadOptions(command: Command): Command {
  return command
    .argument("<file>", "the backup")
    .requiredOption("--recovery-key <file>", "the private half of the recovery key")
    .option("--service-key <id>", "the service key that must have signed it")
    .addOption(
      new Option(
        "--unsigned",
        "take a backup that is not signed, as earlier versions wrote them: anybody who has the public recovery key can make one",
      ).conflicts("serviceKey"),
    )
    .option("--json", "print JSON");
}

/** Does something with a backup, the recovery key and the origin that the options name. */
async function withBackup<T>(
  file: string,
  { recoveryKey: keyFile, serviceKey, unsigned }: ReadOptions,
  work: (read: BackupSource, from: { recoveryKey: string; origin: Origin }) => Promise<T>,
): Promise<T> {
  const recoveryKey = await readNamedFile(keyFile);
  const origin = unsigned === true ? "unsigned" : serviceKey === undefined ? undefined : { serviceKey };
  const backup = await openNamedFile(file);
  try {
    if (!(await backup.stat()).isFile()) {
      throw new UserError(`${file}: it is not a regular file; a backup is read twice, so give a file`);
    }
    const read = (): AsyncIterable<Buffer> => backup.createReadStream({ start: 0, autoClose: false });
    return await work(read, { recoveryKey, origin });
  } finally {
    await backup.close();
  }
}

async function runCheck(file: string, options: ReadOptions): Promise<void> {
  const { checkBackup, requireKnownTables } = await import("../../backup/check.ts");
  const { manifest, signedBy } = await withBackup(file, options, (read, { recoveryKey, origin }) =>
    checkBackup(read, recoveryKey, origin),
  );
  requireKnownTables(manifest);
  const { created_at, head } = manifest;
  const checked = { file, created_at, signed_by: signedBy, head };
  process.stdout.write(
    options.json
      ? `${JSON.stringify(checked)}\n`
      : `${file} is whole, of ${created_at}.\n${describeOrigin(signedBy, head)}`,
  );
}

async function runRestore(file: string, options: ReadOptions): Promise<void> {
  const { restoreBackup } = await import("../../backup/restore.ts");
  const restored: Restored = await withBackup(file, options, (read, from) =>
    restoreBackup(loadConfig(), read, from, createLog("error")),
  );
  const { counts, created_at, signed_by, upgraded, head } = restored;
  const upgrade = upgraded.map((name) => `Brought up to date: ${name}\n`).join("");
  process.stdout.write(
    options.json
      ? `${JSON.stringify(restored)}\n`
      : `Restored the vault of ${created_at}: ${counts.keys} keys of ${counts.tenants} tenants, ${counts.audit} audit records\n${upgrade}${describeOrigin(signed_by, head)}Next: put the PIN file in its place, then "keyvault audit verify".\n`,
  );
}

function describeOrigin(signedBy: string | null, { seq, mac }: Restored["head"]): string {
  const lines: [string, string][] = [
    ["signed by", signedBy ?? "nobody"],
    ["audit head", `${seq}:${mac}`],
  ];
  return foldLines(lines, 15, columnsOf());
}
