import { type FileHandle, open } from "node:fs/promises";
import { UserError } from "../errors.ts";

/**
 * Opens a file that a person named, for reading. Throws a `UserError` for a folder, otherwise the file
 * system's error, which names the file.
 */
export async function openNamedFile(path: string): Promise<FileHandle> {
  const handle = await open(path);
  if (!(await handle.stat()).isDirectory()) return handle;
  await handle.close();
  throw new UserError(`${path}: it is a folder`);
}

/** The text of a file that a person named. Throws as {@link openNamedFile} does. */
export async function readNamedFile(path: string): Promise<string> {
  const handle = await openNamedFile(path);
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}
