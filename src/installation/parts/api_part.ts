import { type Database, poolUse } from "../../db/database.ts";
import { readSchemaState } from "../../db/migrate.ts";
import { appliedMigrations } from "../../db/schema_state.ts";
import { judge } from "../alerts.ts";
import { type Figure, figure, type Part } from "../part.ts";

export type ApiPartDeps = {
  /** The database as calls reach it. */
  db: Database;
  /** The same by a pool that calls do not use. */
  database: Database;
  version: string;
};

/** The process that answers: its version, the schema of its database, and who waits for a connection. */
export function apiPart({ db, database, version }: ApiPartDeps): Part {
  return {
    name: "api",
    async read(at) {
      const begun = performance.now();
      await database.raw("select 1");
      const milliseconds = Math.round(performance.now() - begun);
      const pool = poolUse(db);
      return [
        figure({ name: "api_version", value: version, unit: "text", at }),
        ...(await schemaFigures(database, at)),
        figure({ name: "database_answer", value: milliseconds, unit: "milliseconds", at }),
        figure({ name: "database_connections_used", value: pool.used, at }),
        figure({
          name: "database_calls_waiting",
          value: pool.waiting,
          at,
          state: pool.waiting > pool.most ? "look" : "well",
        }),
      ];
    },
  };
}

async function schemaFigures(database: Database, at: Date): Promise<Figure[]> {
  const { kind } = await readSchemaState(database);
  const newest = (await appliedMigrations(database)).at(-1) ?? null;
  const ready = kind === "usable" ? 1 : 0;
  return [
    figure({
      name: "deputize_ready",
      about: "api",
      value: ready,
      at,
      ...judge(ready, "DeputizeApiNotReady"),
    }),
    figure({ name: "database_schema", about: kind, value: newest, unit: "text", at }),
  ];
}
