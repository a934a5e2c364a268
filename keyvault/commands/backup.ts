import { existsSync } from "node:fs";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Command, Option } from "commander";
import type { Origin } from "../backup/check.ts";
import { createRecoveryKey } from "../backup/encrypted_stream.ts";
import type { BackupSource } from "../backup/format.ts";
import type { Restored } from "../backup/restore.ts";
import { systemClock } from "../clock.ts";
import { loadConfig } from "../config.ts";
import { UserError } from "../errors.ts";
import { syncPath, writeFileDurably } from "../files.ts";
import { createLog } from "../log.ts";
import { download, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { columnsOf, foldLines, print } from "./display.ts";
import { openNamedFile, readNamedFile, wholeNumber } from "./read_input.ts";

const KEY = `Make the key pair that backups are encrypted to. The public half stays with the vault. Move the private half away from this machine, because it opens every backup.`;

/** `keyvault backup …` */
export function backupCommand(): Command {
  const key = new Command("key")
    .summary("make the recovery key")
    .description(KEY)
    .argument("<file>", "the file for the private half")
    .option("--json", "print JSON")
    .action(makeKey);
  const check = new Command("check").summary("check a backup without restoring it").description(CHECK);
  withReadOptions(check).action(runCheck);
  const restore = new Command("restore").summary("restore a backup").description(RESTORE);
  withReadOptions(restore).action(runRestore);
  return new Command("backup")
    .summary("create, check and restore backups")
    .addCommand(key)
    .addCommand(backupCreateCommand())
    .addCommand(check)
    .addCommand(restore);
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
  print({ json }, made, `Made ${recoveryKeyFile}. Take ${file} away from this machine.\n`);
}

const CREATE = `Write a backup of a running vault to a file. It contains SoftHSM's token, all wrapped keys and the audit. Back up the token of another module with its vendor's tools. The backup is encrypted to the recovery key and signed by the vault's service key, whose id "keyvault status" shows. Needs an admin's certificate, or one with the role backup. The backup does not contain the PIN. Keep the PIN apart: whoever opens the backup and has the PIN has the keys.

With --out-dir the file name contains the time, and the file appears when it is complete and on disk. With --keep the oldest backups beyond that number are then removed.`;

type CreateOptions = RemoteOptions & { outDir?: string; keep?: number };

function backupCreateCommand(): Command {
  const command = new Command("create")
    .summary("write a backup of a running vault")
    .description(CREATE)
    .argument("[file]", "the file to write")
    .option("--out-dir <folder>", "a folder of backups, where the file name contains the time")
    .option("--keep <count>", "how many backups to keep in that folder", parseCount);
  return withRemoteOptions(command).action(runCreate);
}

async function runCreate(file: string | undefined, options: CreateOptions, command: Command): Promise<void> {
  const { outDir, keep } = options;
  if ((file === undefined) === (outDir === undefined)) command.error("give a file, or --out-dir");
  if (outDir === undefined && keep !== undefined) command.error("--keep goes with --out-dir");
  const take = (to: string): Promise<number> => download(options, "/v1/backup", to);
  const made =
    outDir === undefined
      ? { file: file ?? "", bytes: await take(file ?? ""), removed: [] }
      : await addBackup(outDir, { take, now: systemClock.now(), keep });
  const lines = [`Wrote ${made.file}, ${made.bytes} bytes`, ...made.removed.map((name) => `Removed ${name}`)];
  print(options, made, `${lines.join("\n")}\n`);
}

const parseCount = wholeNumber(1, 10_000, "Give a number from 1 to 10000.");

const NAME = /^keyvault-\d{8}T\d{6}\.\d{3}Z\.backup$/;
const UNFINISHED = /^\.keyvault-\d{8}T\d{6}\.\d{3}Z\.backup\.unfinished$/;
/** Age after which an unfinished backup file counts as left over from an interrupted run. */
const LEFT_MS = 3_600_000;

/** A backup that was added to a folder, and the older files that were removed, oldest first. */
type AddedBackup = { file: string; bytes: number; removed: string[] };

/**
 * Adds a backup to a folder, under a name with the time. `take` writes the backup to a temporary file, which
 * is moved into place when it is complete and on disk. Only then removes the oldest backups beyond `keep`,
 * and files of interrupted runs that are older than an hour. If `take` rejects, nothing has changed.
 */
export async function addBackup(
  folder: string,
  { take, now, keep }: { take: (file: string) => Promise<number>; now: Date; keep: number | undefined },
): Promise<AddedBackup> {
  const name = `keyvault-${now.toISOString().replaceAll(/[-:]/g, "")}.backup`;
  const [file, unfinished] = [join(folder, name), join(folder, `.${name}.unfinished`)];
  const bytes = await take(unfinished);
  await rename(unfinished, file);
  await syncPath(folder);
  return { file, bytes, removed: await prune(folder, now, keep) };
}

async function prune(folder: string, now: Date, keep: number | undefined): Promise<string[]> {
  const names = (await readdir(folder)).sort();
  const left: string[] = [];
  for (const name of names.filter((name) => UNFINISHED.test(name))) {
    const written = await stat(join(folder, name)).catch(() => undefined);
    if (written !== undefined && now.getTime() - written.mtimeMs > LEFT_MS) left.push(name);
  }
  const backups = names.filter((name) => NAME.test(name));
  const old = keep === undefined ? [] : backups.slice(0, Math.max(0, backups.length - keep));
  const removed = [...left, ...old].map((name) => join(folder, name));
  for (const path of removed) await rm(path, { force: true });
  return removed;
}

const RESTORE = `Restore a backup on a machine without a vault: the data folder has no token, and the database is empty. Put the PIN file in its place yourself. "keyvault init" then makes new certificates unless you put the old ones back too.

The backup is read twice, and nothing is written before its signature was checked. Without --service-key the command shows the id of the key that signed the backup and restores nothing. Compare that id with the one that you noted, then pass it.

A backup contains SoftHSM's token. Restore the token of another module with its vendor's tools.

A backup of an earlier version is upgraded during the restore, like an upgrade of that vault. A backup of a newer version is refused.

Afterwards "keyvault audit verify" checks that token, database and chain belong together.`;

const CHECK = `Read a backup to its end and check it like "keyvault backup restore": the recovery key opens it, it is complete, the service key signed it, and this version can restore it. Writes nothing and needs no setting, token or database.

Exit status: 0 if the backup could be restored, 1 if not.`;

type ReadOptions = { json?: true; recoveryKey: string; serviceKey?: string; unsigned?: true };

function withReadOptions(command: Command): Command {
  return command
    .argument("<file>", "the backup")
    .requiredOption("--recovery-key <file>", "the private half of the recovery key")
    .option("--service-key <id>", "the service key that must have signed the backup")
    .addOption(
      new Option(
        "--unsigned",
        "accept an unsigned backup, as earlier versions wrote them: anybody with the public recovery key can make one",
      ).conflicts("serviceKey"),
    )
    .option("--json", "print JSON");
}

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
  const { checkBackup, requireKnownTables } = await import("../backup/check.ts");
  const { manifest, signedBy } = await withBackup(file, options, (read, { recoveryKey, origin }) =>
    checkBackup(read, recoveryKey, origin),
  );
  requireKnownTables(manifest);
  const { created_at, head } = manifest;
  const checked = { file, created_at, signed_by: signedBy, head };
  print(options, checked, `${file} is whole, of ${created_at}.\n${describeOrigin(signedBy, head)}`);
}

async function runRestore(file: string, options: ReadOptions): Promise<void> {
  const { restoreBackup } = await import("../backup/restore.ts");
  const restored: Restored = await withBackup(file, options, (read, from) =>
    restoreBackup(loadConfig(), read, from, createLog("error")),
  );
  const { counts, created_at, signed_by, upgraded, head } = restored;
  const upgrade = upgraded.map((name) => `Brought up to date: ${name}\n`).join("");
  print(
    options,
    restored,
    `Restored the vault of ${created_at}: ${counts.keys} keys of ${counts.tenants} tenants, ${counts.audit} audit records\n${upgrade}${describeOrigin(signed_by, head)}Next: put the PIN file in its place, then "keyvault audit verify".\n`,
  );
}

function describeOrigin(signedBy: string | null, { seq, mac }: Restored["head"]): string {
  const lines: [string, string][] = [
    ["signed by", signedBy ?? "nobody"],
    ["audit head", `${seq}:${mac}`],
  ];
  return foldLines(lines, 15, columnsOf());
}
