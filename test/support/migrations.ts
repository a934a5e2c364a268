import { migrations } from "../../src/db/migrate.ts";

/** The names of all migrations, in order. */
export const migrationNames = (): string[] => migrations.map(({ name }) => name);

/** The SQL of the migrations before one, in order. */
export function sqlBefore(name: string): string[] {
  return migrations.filter((each) => each.name < name).map(({ sql }) => sql);
}
