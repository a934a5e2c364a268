import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createRecord, GENESIS, recordBytes } from "../../../keyvault/audit/record.ts";
import { createRecoveryKey, encryptStream } from "../../../keyvault/backup/encrypted_stream.ts";
import { readTokenFiles } from "../../../keyvault/backup/format.ts";
import type { TokenConfig } from "../../../keyvault/config.ts";
import { migrateTo, migrationNames, withSchemaLock } from "../../../keyvault/db/migrate.ts";
import type { AuditRow, KeyRow, TenantRow } from "../../../keyvault/db/rows.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import { createHome, SILENT, type TestVault, type VaultHome } from "../fixture.ts";

/** Rows of an earlier version's vault, by table, in the database's own JSON, and the head of its chain. */
export type EarlierRows = { tables: Record<string, object[]>; head: { seq: number; mac: string } };

/** Returns the names of the migrations up to and including this number. */
export const migrationsTo = (level: number): string[] => migrationNames().slice(0, level);

/** Migrates an empty database to the tables of this level. */
export async function migrateToLevel(home: VaultHome, level: number): Promise<void> {
  const name = migrationsTo(level).at(-1) ?? "";
  await withSchemaLock(home.config, SILENT, (database) =>
    database.transaction((transaction) => migrateTo(transaction, name)),
  );
}

type Columns = { table_name: string; column_name: string }[];
const knownColumns = new Map<number, Columns>();

async function columnsOf(level: number): Promise<Columns> {
  const known = knownColumns.get(level);
  if (known !== undefined) return known;
  const home = await createHome({ made: "empty" });
  await migrateToLevel(home, level);
  const columns: Columns = await home.sql(
    "select table_name, column_name from information_schema.columns where table_schema = 'public'",
  );
  await home.remove();
  knownColumns.set(level, columns);
  return columns;
}

/**
 * Returns a running vault's rows as the version with the tables of `level` would have written them, and the
 * chain, made with the token's own audit key. It contains no codes if that version had none.
 */
export async function earlierRows(vault: TestVault, level: number): Promise<EarlierRows> {
  const columns = await columnsOf(level);
  const tables: Record<string, object[]> = {};
  for (const table of ["tenants", "keys", "residents"]) {
    const known = columns.filter((column) => column.table_name === table).map((column) => column.column_name);
    if (known.length === 0) continue;
    const rows = await vault.home.sql<{ row: Record<string, unknown> }>(
      `select to_jsonb(t) as row from ${table} t`,
    );
    tables[table] = rows.map(({ row }) => Object.fromEntries(known.map((column) => [column, row[column]])));
  }
  const records = await vault.vault.database<AuditRow>("audit").orderBy("seq");
  const hasCodes = columns.some(({ column_name }) => column_name === "state_mac");
  tables.audit = (hasCodes ? records : await chained(vault, records.map(withoutState))).map(storable);
  const { seq = 0, mac = "" } = (tables.audit.at(-1) ?? {}) as { seq?: number; mac?: string };
  return { tables, head: { seq, mac: mac.slice(2) } };
}

/**
 * Returns a running vault's rows as if the version with the tables of `level` had adopted them at its first
 * startup. Their codes refer to the adoption's record, which does not name the rows.
 */
export async function adoptedRows(vault: TestVault, level: number): Promise<EarlierRows> {
  const { tables } = await earlierRows(vault, level);
  const { database, rowCodes } = vault.vault;
  const records = (await database<AuditRow>("audit").orderBy("seq")).map(withoutState);
  const state_seq = records.length + 1;
  const numbered = <Row>(row: Row) => ({ ...row, state_seq });
  const coded = await rowCodes.add({
    keys: (await database<KeyRow>("keys")).map(numbered),
    tenants: (await database<TenantRow>("tenants")).map(numbered),
  });
  const codes = new Map<unknown, string>([
    ...coded.keys.map((row) => [row.key_id, row.state_mac.toString("hex")] as const),
    ...coded.tenants.map((row) => [row.tenant, row.state_mac.toString("hex")] as const),
  ]);
  for (const [table, name] of [
    ["keys", "key_id"],
    ["tenants", "tenant"],
  ] as const) {
    tables[table] = (tables[table] as Record<string, unknown>[]).map((row) => {
      return { ...row, state_seq, state_mac: `\\x${codes.get(row[name])}` };
    });
  }
  const adoption = {
    caller: { role: "local", name: "upgrade" },
    statement: "state_adopt",
    outcome: "granted",
  } as const;
  const adoptions = [String(codes.size), "0"].map((rows, index) => ({
    ...createRecord({ ...adoption, detail: { rows } }, state_seq + index, vault.clock.now()),
    mac: GENESIS,
  }));
  tables.audit = (await chained(vault, [...records, ...adoptions])).map(storable);
  const { seq = 0, mac = "" } = (tables.audit.at(-1) ?? {}) as { seq?: number; mac?: string };
  return { tables, head: { seq, mac: mac.slice(2) } };
}

/** Returns a record as a version without codes wrote it. */
function withoutState(record: AuditRow): AuditRow {
  const { state: _, ...detail } = record.detail;
  return { ...record, detail, digest: record.statement === "key_create" ? record.digest : null };
}

async function chained(vault: TestVault, records: readonly AuditRow[]): Promise<AuditRow[]> {
  const numbered = records.map((record, index) => ({ ...record, seq: index + 1 }));
  const macs = await vault.token.chain(GENESIS, numbered.map(recordBytes));
  return numbered.map((record, index) => ({ ...record, mac: Buffer.from(macs[index] ?? GENESIS) }));
}

function storable(record: AuditRow): object {
  const hex = (bytes: Buffer | null) => bytes && `\\x${bytes.toString("hex")}`;
  return { ...record, digest: hex(record.digest), mac: hex(record.mac) };
}

/**
 * Writes a backup file with these rows, like the version with `migrations`. Also returns its recovery key's
 * private half.
 */
export async function writeEarlierBackup(
  vault: TestVault,
  { tables, head }: EarlierRows,
  migrations: readonly string[],
  order: (lines: string[]) => string[] = (lines) => lines,
): Promise<{ file: string; key: string }> {
  const { publicKey, privateKey } = createRecoveryKey();
  const token = await tokenOf(vault, head);
  const manifest = { kind: "manifest", version: 1, created_at: "2026-01-01T00:00:00.000Z", migrations };
  const counts = Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, rows.length]));
  const contents = [
    { ...manifest, head, token },
    ...Object.entries(tables).map(([table, rows]) => ({ kind: "rows", table, rows })),
    { kind: "end", counts },
  ];
  const lines = async function* (): AsyncGenerator<string> {
    yield* order(contents.map((line) => `${JSON.stringify(line)}\n`));
  };
  const folder = await mkdtemp(join(vault.home.dir, "backup-"));
  const [file, key] = [join(folder, "backup"), join(folder, "recovery.key")];
  await writeFile(file, encryptStream(lines(), publicKey));
  await writeFile(key, privateKey);
  return { file, key };
}

/** Returns the files of a running vault's token, for a chain that ends with this head. */
async function tokenOf({ home }: TestVault, head: EarlierRows["head"]): Promise<Record<string, string>> {
  const dir = join(await mkdtemp(join(home.dir, "token-")), "token");
  await cp(home.config.token.dir, dir, { recursive: true });
  await noteEnd({ ...home.config.token, dir }, head);
  const files = await readTokenFiles(dir);
  await rm(dirname(dir), { recursive: true });
  return files;
}

/** Notes the end of an earlier version's chain in a copied token, instead of the original vault's head. */
async function noteEnd(config: TokenConfig, { seq, mac }: EarlierRows["head"]): Promise<void> {
  const token = await openToken(await tokenSettings(config), SILENT);
  await token.noteHead({ seq, mac: Buffer.from(mac, "hex") }, true);
  await token.close();
}

/** Creates a machine without a vault, but with another vault's PIN and certificates. */
export async function machineFor(vault: TestVault): Promise<VaultHome> {
  const home = await createHome({ made: "empty" });
  await mkdir(home.config.dataDir, { recursive: true, mode: 0o700 });
  await cp(vault.home.config.tlsDir, home.config.tlsDir, { recursive: true });
  await cp(vault.home.config.token.pinFile, home.config.token.pinFile);
  return home;
}

/** Creates a machine on which this level's version has stored these rows, with their token. */
export async function machineOfLevel(
  vault: TestVault,
  { tables, head }: EarlierRows,
  level: number,
): Promise<VaultHome> {
  const home = await machineFor(vault);
  await cp(vault.home.config.token.dir, home.config.token.dir, { recursive: true });
  await noteEnd(home.config.token, head);
  await migrateToLevel(home, level);
  for (const [table, rows] of Object.entries(tables)) {
    await home.sql(`insert into ${table} select * from jsonb_populate_recordset(null::${table}, $1)`, [
      JSON.stringify(rows),
    ]);
  }
  return home;
}

/** Returns every row, column, index, constraint, trigger and function of a home's database. */
export async function contentsOf(home: VaultHome): Promise<object> {
  const contents: Record<string, object[]> = {};
  for (const [name, query] of Object.entries(CATALOGUE)) contents[name] = await home.sql(query);
  for (const { relname } of contents.tables as { relname: string }[]) {
    if (!relname.startsWith("schema_migrations")) {
      contents[relname] = await home.sql(`select to_jsonb(t) as row from ${relname} t order by to_jsonb(t)`);
    }
  }
  return contents;
}

const CATALOGUE = {
  migrations: "select id, name from schema_migrations order by id",
  tables:
    "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1",
  columns:
    "select table_name, ordinal_position, column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema = 'public' order by 1, 2",
  indexes: "select indexdef from pg_indexes where schemaname = 'public' order by 1",
  constraints:
    "select conrelid::regclass::text as of, conname, pg_get_constraintdef(oid) as text from pg_constraint where connamespace = 'public'::regnamespace order by 1, 2",
  triggers: "select pg_get_triggerdef(oid) as text from pg_trigger where not tgisinternal order by 1",
  functions: "select proname from pg_proc where pronamespace = 'public'::regnamespace order by 1",
};
