import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { insertNotice } from "./support/account_rows.ts";
import { startApi, type TestApi, withReplica } from "./support/api.ts";
import { createFakeVault } from "./support/fake_vault.ts";
import { holdLoopPauses } from "./support/loop_pauses.ts";
import { migratedDatabase } from "./support/postgres.ts";
import { until } from "./support/process.ts";
import { administratorOf } from "./support/service_world.ts";

/** The pauses of all loops of the API in milliseconds, ascending: notices, vault sync, and upkeep. */
const PAUSES = [2_000, 30_000, 60_000, 30 * 60_000];
const pauses = holdLoopPauses(PAUSES);

let first: TestApi;
beforeAll(async () => {
  first = await startApi();
  await until("the loops pause", () => pauses.waiting().length === PAUSES.length);
});
afterAll(() => first.stop());

describe("the API role", () => {
  test("finishes a mail that it is sending when it stops, and records it", async () => {
    const { accountId } = await first.person();
    const [sending, sent] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const send = () => {
      sending.resolve();
      return sent.promise;
    };
    await insertNotice(first.db, { accountId, at: first.clock.now() });
    const api = await startApi({ shares: first, mailer: (own) => ({ ...own, send }) });
    await sending.promise;
    const stopping = api.stop().then(() => "stopped");
    expect(await Promise.race([stopping, sleep(500, "sends")])).toBe("sends");
    sent.resolve();
    await stopping;
    expect(await first.db("notices").where({ account_id: accountId }).pluck("state")).toEqual(["sent"]);
  });

  test("closes all connections to its database when it stops", async () => {
    const database = await migratedDatabase();
    const names = async () => {
      const { rows } = await first.db.raw("select application_name from pg_stat_activity where datname = ?", [
        new URL(database.url).pathname.slice(1),
      ]);
      return new Set(rows.map((row: { application_name: string }) => row.application_name));
    };
    const api = await startApi({ databaseUrl: database.url, direct: true });
    for (const pool of Object.values(api.pools)) await pool.query("select");
    const { client } = await administratorOf(api);
    await client.get("/v1/service/installation/parts/api");
    expect((await names()).size).toBe(8);
    await api.stop();
    // A backend ends a moment after its client.
    await until("all connections are closed", async () => (await names()).size === 0);
    await database.drop();
  });

  test("ends its loops, and closes the vault, the clusters and the mailer when it stops", async () => {
    const closed: string[] = [];
    const note = (name: string) => async () => void closed.push(name);
    const api = await startApi({
      shares: first,
      vault: Object.assign(createFakeVault(), { close: note("vault") }),
      trusted: { get: () => undefined, close: note("clusters") },
      mailer: (own) => ({ ...own, close: () => void closed.push("mailer") }),
    });
    await until("the loops pause", () => pauses.waiting().length === 2 * PAUSES.length);
    await api.stop();
    expect(pauses.waiting()).toEqual(PAUSES);
    expect(closed).toEqual(["vault", "clusters", "mailer"]);
  });

  test("becomes ready only if its version supports the schema", async () => {
    const database = await migratedDatabase();
    const api = await startApi({ databaseUrl: database.url });
    expect(await api.isReady()).toBe(true);
    await api.db.raw("delete from schema_migrations where id = (select max(id) from schema_migrations)");
    expect(await api.isReady()).toBe(false);
    await api.stop();
    await database.drop();
  });

  test("serves the pages about itself outside development", async () => {
    await withReplica(first, { config: { DEVELOPMENT: false } }, async (api) => {
      for (const path of ["/docs", "/openapi.json", "/asyncapi.json"]) {
        expect((await api.client().get(path)).status, path).toBe(200);
      }
    });
  });

  test("listens for changes of API keys again after its connection was lost", async () => {
    const listeners = async () => {
      const { rows } = await first.db.raw(
        `select pid from pg_stat_activity
         where datname = current_database() and application_name = 'deputize-api-keys'`,
      );
      return rows.map(({ pid }: { pid: number }) => pid);
    };
    await until("it listens", async () => (await listeners()).length === 1);
    const [former] = await listeners();
    await first.db.raw("select pg_terminate_backend(?)", [former]);
    await until("it listens again", async () => {
      const [pid] = await listeners();
      return pid !== undefined && pid !== former;
    });
    expect(first.lines.some((line) => line.includes("database connection lost"))).toBe(true);
  });
});
