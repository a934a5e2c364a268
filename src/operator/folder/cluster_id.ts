import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { stringify } from "yaml";
import { StartError } from "../../config.ts";
import { isMissing, writeAtomically } from "./atomic_file.ts";
import { StateDamaged } from "./state_file.ts";

const WHY = "without it every object is registered again, which a personal account refuses";

/** A start that was refused because objects are known, but not the id under which the API knows them. */
export class IdentityMissing extends StartError {
  /** `file` is the path where the identity belongs. */
  constructor(file: string) {
    super(
      `${file} is missing, the operator's identity to which the objects beside it belong: restore it; ${WHY}.`,
    );
    this.name = "IdentityMissing";
  }
}

/**
 * The id under which the API knows this folder, made on first use, which is when no object is known. Throws
 * `StateDamaged` and `IdentityMissing`.
 */
export async function clusterIdOf(path: string, { hasObjects }: { hasObjects: boolean }): Promise<string> {
  const known = await readId(path);
  if (known !== undefined) return known;
  if (hasObjects) throw new IdentityMissing(path);
  const clusterId = randomUUID();
  await writeAtomically(path, stringify({ clusterID: clusterId }), {
    mode: 0o644,
    folderMode: 0o755,
    replace: false,
  });
  return (await readId(path)) ?? clusterId;
}

async function readId(path: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const id = /^clusterID: ([A-Za-z0-9-]{1,64})$/m.exec(text)?.[1];
  if (id === undefined) {
    throw new StateDamaged(
      path,
      `It is the operator's identity, not an object's record: restore it and do not remove it; ${WHY}.`,
    );
  }
  return id;
}
