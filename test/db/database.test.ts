import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { containsText, openDatabase } from "../../src/db/database.ts";
import { testDatabase } from "../support/postgres.ts";
import { runPart } from "../support/run_parts.ts";

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

test("a search ignores the case of letters, also in a database with a Turkish collation", async () => {
  const superuser = openDatabase({ url: runPart("postgresUrl"), name: "test", onError: () => {} });
  const name = `turkish_${randomBytes(6).toString("hex")}`;
  await superuser.raw(
    `create database ${name} template template0 locale 'C' locale_provider icu icu_locale 'tr-TR'`,
  );
  const url = new URL(runPart("postgresUrl"));
  url.pathname = name;
  const db = openDatabase({ url: url.href, name: "test", max: 1, onError: () => {} });
  try {
    await db.raw("create temporary table agents as select unnest(array['MAIL', 'ÄRZTE', 'other']) as name");
    const found = async (text: string) =>
      db("agents")
        .where(containsText(db, "name", text))
        .pluck("name");
    expect(await found("mail")).toEqual(["MAIL"]);
    expect(await found("ärz")).toEqual(["ÄRZTE"]);
    expect(await found("%")).toEqual([]);
  } finally {
    await db.destroy();
    await superuser.raw(`drop database ${name} with (force)`);
    await superuser.destroy();
  }
});
