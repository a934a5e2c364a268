import { dataKeyContext } from "../../../keyvault/keys/wrapping.ts";
import type { Token } from "../../../keyvault/token/client.ts";
import type { VaultHome } from "../fixture.ts";

/** Stores tenants `bulk-1…n`, each with its own data key under the token's newest key-encryption key. */
export async function storeTenants(home: VaultHome, token: Token, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, index) => `bulk-${index + 1}`);
  const boxes: Buffer[] = [];
  for (const name of names) {
    const { box } = await token.wrap(Buffer.alloc(32, name), dataKeyContext(name));
    boxes.push(Buffer.from(box));
  }
  await home.sql(
    `insert into tenants (tenant, kek, wrapped_data_key, created_at)
     select name, $3, box, now() from unnest($1::text[], $2::bytea[]) as made (name, box)`,
    [names, boxes, token.info().keks.at(-1)],
  );
}

/** Returns the number of data keys under each version of the key-encryption key. */
export async function tenantsByKek(home: VaultHome): Promise<Record<string, number>> {
  const rows = await home.sql<{ kek: string; count: number }>(
    "select kek, count(*)::int from tenants where octet_length(wrapped_data_key) > 0 group by kek",
  );
  return Object.fromEntries(rows.map(({ kek, count }) => [kek, count]));
}
