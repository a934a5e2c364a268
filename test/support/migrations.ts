import { readdirSync } from "node:fs";

const FOLDER = new URL("../../src/db/migrations/", import.meta.url);

/** The names of all migrations, as their files have them, in order. */
export const migrationNames = (): string[] =>
  readdirSync(FOLDER)
    .map((file) => file.replace(/\.ts$/, ""))
    .toSorted();

/** The SQL of the migrations before one, in order. */
export async function sqlBefore(name: string): Promise<string[]> {
  const names = migrationNames().filter((each) => each < name);
  const modules = await Promise.all(names.map((each) => import(new URL(`${each}.ts`, FOLDER).href)));
  return modules.flatMap((module) => Object.values<{ sql: string }>(module).map(({ sql }) => sql));
}
