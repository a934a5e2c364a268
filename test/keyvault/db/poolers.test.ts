import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openLedger } from "../../../keyvault/audit/writer_connection.ts";
import { migrate } from "../../../keyvault/db/migrate.ts";
import { requireTables } from "../../../keyvault/db/tables.ts";
import { ConfigError } from "../../../keyvault/settings/read.ts";
import { runPart } from "../../support/run_parts.ts";
import { type PgBouncer, startPgBouncer } from "../../support/surroundings/pgbouncer.ts";
import { createHome, SILENT, type VaultHome } from "../fixture.ts";

let home: VaultHome;
beforeAll(async () => {
  home = await createHome();
});
afterAll(() => home.remove());

describe.each([
  ["in transaction mode", { mode: "transaction" }],
  ["in transaction mode that ignores parameters", { mode: "transaction", ignoresParameters: true }],
  ["in session mode", { mode: "session", ignoresParameters: true }],
] as const)("behind a pooler %s, the vault", (_, options) => {
  let pooler: PgBouncer;
  beforeAll(async () => {
    pooler = await startPgBouncer(runPart("postgresUrl"), options);
  });
  afterAll(() => pooler.remove());

  test.each<[string, () => Promise<unknown>]>([
    ["serve", () => requireTables(pooler.through(home.config.databaseUrl), SILENT)],
    ["write its audit", () => openLedger(pooler.through(home.config.databaseUrl), async () => {})],
    [
      "migrate",
      () =>
        migrate(
          { ...home.config, migrationDatabaseUrl: pooler.through(home.config.migrationDatabaseUrl) },
          SILENT,
        ),
    ],
  ])("does not %s, and says which settings to change", async (_, work) => {
    const refusal = await work().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ConfigError);
    expect((refusal as Error).message).toMatch(/behind a pooler.*KEYVAULT_DATABASE_URL/);
  });
});

test("without a pooler, the vault finds its tables and opens its audit", async () => {
  await requireTables(home.config.databaseUrl, SILENT);
  const { client } = await openLedger(home.config.databaseUrl, async () => {});
  await client.end();
});
