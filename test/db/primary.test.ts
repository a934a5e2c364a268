import { pino } from "pino";
import { expect, test } from "vitest";
import { createClient } from "../../keyvault/db/database.ts";
import { watchPrimary as watchForVault } from "../../keyvault/db/primary.ts";
import { openConnection } from "../../src/db/connection.ts";
import { watchPrimary } from "../../src/db/primary.ts";
import { SILENT } from "../keyvault/fixture.ts";
import { testDatabase } from "../support/postgres.ts";
import { until } from "../support/process.ts";
import { startTcpProxy } from "../support/surroundings/tcp_proxy.ts";

type Watch = Pick<ReturnType<typeof watchPrimary>, "opened" | "stop">;
type Open = (url: string, opened: Watch["opened"]) => ReturnType<typeof openConnection>;

test.each<[string, (url: string) => Watch, Open]>([
  [
    "the service",
    (url) => watchPrimary({ url, log: pino({ level: "silent" }) }),
    (url, opened) => openConnection({ url, name: "test", opened }),
  ],
  [
    "the vault",
    (url) => watchForVault(url, SILENT) as unknown as Watch,
    (url, opened) => createClient(url, { opened } as object) as unknown as ReturnType<Open>,
  ],
])("%s keeps its connections to the primary when its watch connects late", async (_, watchOf, open) => {
  const database = await testDatabase();
  const proxy = await startTcpProxy(database.url);
  proxy.cut();
  const watch = watchOf(proxy.url);
  const client = open(database.url, watch.opened);
  try {
    await client.connect();
    proxy.mend();
    const name = "application_name like '%-primary'";
    const watched = `select 1 from pg_stat_activity where datname = current_database() and ${name} and query like '%emit_message%'`;
    await until("the watch has connected", async () => (await client.query(watched)).rowCount === 1);
    expect((await client.query("select 1")).rowCount).toBe(1);
  } finally {
    await client.end();
    await watch.stop();
    await proxy.stop();
    await database.drop();
  }
});
