import type pg from "pg";
import { expect, test } from "vitest";
import type { RowCodes } from "../../../keyvault/audit/row_codes.ts";
import type { TenantRow } from "../../../keyvault/db/rows.ts";
import { placeTenant } from "../../../keyvault/keys/new_key.ts";

const TENANT: TenantRow = {
  tenant: "acc-1",
  kek: "kek-1",
  wrapped_data_key: Buffer.from("data key"),
  created_at: new Date(0),
  state: "active",
  pending: null,
  destroy_at: null,
  state_seq: 1,
  state_mac: Buffer.alloc(32),
};

/** Places the tenant where `stored` is already, or nothing when it is undefined. */
function place(keks: string[], stored: Partial<TenantRow> = {}, intact = true) {
  const queries: string[] = [];
  const client = {
    async query(text: string) {
      queries.push(text);
      return { rows: [{ ...TENANT, ...stored }] };
    },
  } as unknown as pg.Client;
  const rowCodes = { check: async () => [intact] } as unknown as RowCodes;
  return { outcome: placeTenant(client, rowCodes, TENANT, keks), queries };
}

test("a data key under a version that was retired while it was made is not stored", async () => {
  const { outcome, queries } = place(["kek-2", "kek-3"]);
  expect(await outcome).toBe("raced");
  expect(queries).toEqual([]);
  expect(await place(["kek-1", "kek-2"]).outcome).toBeUndefined();
});

test("a tenant that got another data key meanwhile, is altered, or is to end gets no key", async () => {
  expect(await place(["kek-1"], { wrapped_data_key: Buffer.from("another") }).outcome).toBe("raced");
  expect(await place(["kek-1"], {}, false).outcome).toBe("damaged");
  for (const state of ["destroying", "destroyed"] as const) {
    expect(await place(["kek-1"], { state }).outcome).toMatchObject({ refused: "policy_violation" });
  }
});
