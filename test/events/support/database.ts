import { afterAll, beforeAll } from "vitest";
import { type Database, openDatabase } from "../../../src/db/database.ts";
import type { DatabaseUrls } from "../../../src/input/database_url.ts";
import { migratedDatabase, serviceUrls, type TestDatabase } from "../../support/postgres.ts";

/** A migrated database for the tests of a file. Its roles use `urls`. */
export type Home = { readonly url: string; readonly urls: DatabaseUrls; readonly database: Database };

/** Declares the database of a test file. It is created before the file's tests and removed after them. */
export function useDatabase(): Home {
  let test: TestDatabase;
  let database: Database;
  beforeAll(async () => {
    test = await migratedDatabase();
    database = openDatabase({
      url: serviceUrls(test.url).DATABASE_URL,
      name: "test",
      max: 24,
      onError: () => {},
    });
  });
  afterAll(async () => {
    await database?.destroy();
    await test?.drop();
  });
  return {
    get url() {
      return test.url;
    },
    get urls() {
      return serviceUrls(test.url);
    },
    get database() {
      return database;
    },
  };
}
