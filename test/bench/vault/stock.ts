import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import { createLog } from "../../../keyvault/log.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import type { BenchVault } from "./place.ts";

const ROWS_AT_ONCE = 2_000;

/** Stores tenants `bulk-1…n`, each with a data key of its own that the vault's token wrapped. */
export async function storeTenants({ config, sql }: BenchVault, count: number): Promise<void> {
  const token = await openToken(await tokenSettings(config.token), createLog("silent"));
  const kek = token.info().keks.at(-1);
  for (let stored = 0; stored < count; stored += ROWS_AT_ONCE) {
    const names = Array.from({ length: ROWS_AT_ONCE }, (_, index) => `bulk-${stored + index + 1}`);
    const boxes = await Promise.all(
      names.map((name) => token.wrap(Buffer.alloc(32, name), dataKeyContext(name))),
    );
    await sql.query(
      `INSERT INTO tenants (tenant, kek, wrapped_data_key, created_at)
       SELECT name, $3, box, now() FROM unnest($1::text[], $2::bytea[]) AS made (name, box)`,
      [names, boxes.map(({ box }) => Buffer.from(box)), kek],
    );
  }
  await token.close();
}

/**
 * Stores `count` rows that are as large as keys and lie among them as keys do, for a table as full as a large vault's. They are copies of a
 * key under other ids, so they open for nobody: only keys that the vault made are signed with.
 */
export async function storeFillingKeys({ sql }: BenchVault, count: number, tenants: number): Promise<void> {
  for (let stored = 0; stored < count; stored += ROWS_AT_ONCE) {
    await sql.query(
      `INSERT INTO keys
       SELECT made.* FROM (SELECT key_id FROM keys WHERE purpose = 'agent' LIMIT 1) AS first
       JOIN keys AS model USING (key_id)
       CROSS JOIN generate_series($1::int + 1, $2::int) AS number
       CROSS JOIN LATERAL jsonb_populate_record(model, jsonb_build_object(
         'key_id', md5('key ' || number), 'request_key', 'bulk-' || number,
         'tenant', 'bulk-' || (number % $3::int + 1))) AS made`,
      [stored, Math.min(stored + ROWS_AT_ONCE, count), tenants],
    );
  }
  await sql.query("VACUUM ANALYZE keys");
  await sql.query("VACUUM ANALYZE tenants");
}
