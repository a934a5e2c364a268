import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import { createLog } from "../../../keyvault/log.ts";
import { openToken } from "../../../keyvault/token/client.ts";
import { tokenSettings } from "../../../keyvault/token/install.ts";
import type { BenchVault } from "./place.ts";

const ROWS_AT_ONCE = 2_000;

/** Stores the tenants `bulk-1…n`. Each has a separate data key that the vault's token wraps. */
export async function storeTenants({ config, sql }: BenchVault, count: number): Promise<void> {
  const token = await openToken(await tokenSettings(config.token), createLog("silent"));
  const kek = token.info().keks.at(-1);
  for (let stored = 0; stored < count; stored += ROWS_AT_ONCE) {
    const names = Array.from({ length: ROWS_AT_ONCE }, (_, index) => `bulk-${stored + index + 1}`);
    const boxes = await Promise.all(
      names.map((name) => token.wrap(Buffer.alloc(32, name), dataKeyContext(name))),
    );
    await sql.query(
      `insert into tenants (tenant, kek, wrapped_data_key, created_at)
       select name, $3, box, now() from unnest($1::text[], $2::bytea[]) as made (name, box)`,
      [names, boxes.map(({ box }) => Buffer.from(box)), kek],
    );
  }
  await token.close();
}

/**
 * Stores `count` copies of one key with other ids, so that the table is as full as a large vault's. Nobody
 * can decrypt them, and signatures do not use them.
 */
export async function storeFillingKeys({ sql }: BenchVault, count: number, tenants: number): Promise<void> {
  for (let stored = 0; stored < count; stored += ROWS_AT_ONCE) {
    await sql.query(
      `insert into keys
       select made.* from (select key_id from keys where purpose = 'agent' limit 1) as first
       join keys as model using (key_id)
       cross join generate_series($1::int + 1, $2::int) as number
       cross join lateral jsonb_populate_record(model, jsonb_build_object(
         'key_id', md5('key ' || number), 'request_key', 'bulk-' || number,
         'tenant', 'bulk-' || (number % $3::int + 1))) as made`,
      [stored, Math.min(stored + ROWS_AT_ONCE, count), tenants],
    );
  }
  await sql.query("vacuum analyze keys");
  await sql.query("vacuum analyze tenants");
}
