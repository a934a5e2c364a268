import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { schemaFiles } from "../../src/events/schemas/event_schemas.ts";

const FOLDER = new URL("../../docs/events/", import.meta.url);

export async function publishedSchemas(): Promise<Record<string, string>> {
  const names = (await readdir(FOLDER)).sort();
  return Object.fromEntries(
    await Promise.all(names.map(async (name) => [name, await readFile(new URL(name, FOLDER), "utf8")])),
  );
}

/** Returns the expected text of each schema file. */
export function currentSchemas(): Record<string, string> {
  const files = Object.entries(schemaFiles()).map(([name, schema]) => [
    name,
    `${JSON.stringify(schema, null, 2)}\n`,
  ]);
  return Object.fromEntries(files.sort(([one = ""], [other = ""]) => (one < other ? -1 : 1)));
}

/** Writes the schema files, and removes files of event types that no longer exist. */
export async function writeSchemaFiles(): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  const current = currentSchemas();
  for (const name of await readdir(FOLDER)) {
    if (!Object.hasOwn(current, name)) await rm(new URL(name, FOLDER));
  }
  for (const [name, text] of Object.entries(current)) await writeFile(new URL(name, FOLDER), text);
}
