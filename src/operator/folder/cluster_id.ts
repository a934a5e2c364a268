import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { stringify } from "yaml";
import { isMissing, writeAtomically } from "./atomic_file.ts";
import { StateDamaged } from "./state_file.ts";

/** The id under which the API knows this folder, made on first use. Throws `StateDamaged`. */
export async function clusterIdOf(path: string): Promise<string> {
  const known = await readId(path);
  if (known !== undefined) return known;
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
  if (id === undefined) throw new StateDamaged(path);
  return id;
}
