import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { syncPath } from "../files.ts";

const NAME = /^keyvault-\d{8}T\d{6}\.\d{3}Z\.backup$/;
const UNFINISHED = /^\.keyvault-\d{8}T\d{6}\.\d{3}Z\.backup\.unfinished$/;
/** An unfinished backup that nobody has written to for so long was left by a run that was cut off. */
const LEFT_MS = 3_600_000;

/** A backup that was added to a folder, and the files that were removed for it, oldest first. */
export type AddedBackup = { file: string; bytes: number; removed: string[] };

/**
 * Adds a backup to a folder, under a name by its time: `take` writes it beside, and it is moved into place
 * when it is whole and on disk. Only then are the oldest backups beyond `keep` removed, and what runs that
 * were cut off left an hour ago or more; files of other names stay. When `take` rejects nothing has changed.
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
