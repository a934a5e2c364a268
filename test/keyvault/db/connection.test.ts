import { afterAll, beforeAll, expect, test } from "vitest";
import { createClient } from "../../../keyvault/db/connection.ts";
import { createHome, type VaultHome } from "../fixture.ts";

const LONGER_THAN_A_QUERY_MAY_TAKE_S = 30;

let home: VaultHome;

beforeAll(async () => {
  home = await createHome({ made: "empty" });
});
afterAll(() => home.remove());

test("a database that does not answer holds the audit for some seconds, not for ever", async () => {
  const client = createClient(home.config.databaseUrl);
  client.on("error", () => {});
  await client.connect();
  const began = performance.now();
  try {
    await expect(client.query(`SELECT pg_sleep(${LONGER_THAN_A_QUERY_MAY_TAKE_S})`)).rejects.toThrow(
      /timeout/,
    );
    expect(performance.now() - began).toBeLessThan(15_000);
  } finally {
    void client.end().catch(() => {});
  }
}, 60_000);
