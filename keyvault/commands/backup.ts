import { existsSync } from "node:fs";
import { Command, Option } from "commander";
import { createRecoveryKey } from "../backup/encrypted_stream.ts";
import type { Restored } from "../backup/restore.ts";
import { loadConfig } from "../config.ts";
import { UserError } from "../errors.ts";
import { writeFileDurably } from "../files.ts";
import { createLog } from "../log.ts";
import { columnsOf, foldLines } from "./display/wrap.ts";
import { openNamedFile, readNamedFile } from "./named_file.ts";
import { download, type RemoteOptions, withRemoteOptions } from "./remote/call.ts";

const KEY = `Make the key pair that backups are encrypted to. The public half stays with the vault; take the private half away from this machine, it opens every backup.`;

const CREATE = `Write a backup of a running vault to a file: SoftHSM's token (another module's is backed up by its vendor's means), all wrapped keys and the audit, encrypted to the recovery key and signed by the vault's service key, whose id "keyvault status" shows. Needs an admin's certificate. The PIN is not in it: keep it apart, or who opens the backup has the keys.`;

const RESTORE = `Put a backup back where no vault is: no token in the data folder, an empty database. The PIN file goes to its place by hand, and "keyvault init" then makes new certificates unless the old ones are put back too.

The backup is read twice: nothing is written before its signature was checked. Without --service-key the id of the key that signed it is shown and nothing restored: compare that with the id that you noted, then pass it.

A backup holds SoftHSM's token; another module's is put back by its vendor's means.

A backup of an earlier version is brought up to date on the way, as an upgrade of that vault would have done; one of a newer version is refused.

Afterwards "keyvault audit verify" proves that token, database and chain belong together.`;

type Json = { json?: true };

/** `keyvault backup …` */
export function backupCommand(): Command {
  const key = new Command("key")
    .summary("make the recovery key")
    .description(KEY)
    .argument("<file>", "where the private half goes")
    .option("--json", "print JSON")
    .action(makeKey);
  const create = new Command("create")
    .summary("write a backup of a running vault")
    .description(CREATE)
    .argument("<file>", "where it goes");
  const restore = new Command("restore")
    .summary("put a backup back")
    .description(RESTORE)
    .argument("<file>", "the backup")
    .requiredOption("--recovery-key <file>", "the private half of the recovery key")
    .option("--service-key <id>", "the service key that must have signed it")
    .addOption(
      new Option(
        "--unsigned",
        "take a backup that is not signed, as earlier versions wrote them: anybody who has the public recovery key can make one",
      ).conflicts("serviceKey"),
    )
    .option("--json", "print JSON")
    .action(runRestore);
  return new Command("backup")
    .summary("write backups and put them back")
    .addCommand(key)
    .addCommand(withRemoteOptions(create).action(runCreate))
    .addCommand(restore);
}

async function makeKey(file: string, { json }: Json): Promise<void> {
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

async function runCreate(file: string, options: RemoteOptions): Promise<void> {
  const bytes = await download(options, "/v1/backup", file);
  process.stdout.write(
    options.json ? `${JSON.stringify({ file, bytes })}\n` : `Wrote ${file}, ${bytes} bytes\n`,
  );
}

type RestoreOptions = Json & { recoveryKey: string; serviceKey?: string; unsigned?: true };

async function runRestore(
  file: string,
  { recoveryKey: keyFile, serviceKey, unsigned, json }: RestoreOptions,
): Promise<void> {
  const recoveryKey = await readNamedFile(keyFile);
  const origin = unsigned === true ? "unsigned" : serviceKey === undefined ? undefined : { serviceKey };
  const backup = await openNamedFile(file);
  const read = (): AsyncIterable<Buffer> => backup.createReadStream({ start: 0, autoClose: false });
  const { restoreBackup } = await import("../backup/restore.ts");
  let restored: Restored;
  try {
    if (!(await backup.stat()).isFile()) {
      throw new UserError(`${file}: it is not a regular file; a backup is read twice, so give a file`);
    }
    restored = await restoreBackup(loadConfig(), read, { recoveryKey, origin }, createLog("error"));
  } finally {
    await backup.close();
  }
  const { counts, created_at, signed_by, upgraded } = restored;
  const upgrade = upgraded.map((name) => `Brought up to date: ${name}\n`).join("");
  const origins: [string, string][] = [
    ["signed by", signed_by ?? "nobody"],
    ["audit head", `${restored.head.seq}:${restored.head.mac}`],
  ];
  const from = foldLines(origins, 15, columnsOf());
  process.stdout.write(
    json
      ? `${JSON.stringify(restored)}\n`
      : `Restored the vault of ${created_at}: ${counts.keys} keys of ${counts.tenants} tenants, ${counts.audit} audit records\n${upgrade}${from}Next: put the PIN file in its place, then "keyvault audit verify".\n`,
  );
}
