import { expect, test } from "vitest";
import { openDatabase } from "../../src/db/database.ts";
import { testDatabase } from "../support/postgres.ts";

test("openDatabase limits the server's search for a join order to four tables, whatever the server's setting is", async () => {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url, name: "test", onError: () => {} });
  try {
    const { rows } = await db.raw("show join_collapse_limit");
    expect(rows).toEqual([{ join_collapse_limit: "4" }]);
  } finally {
    await db.destroy();
    await database.drop();
  }
});
