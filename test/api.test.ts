import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "./support/api.ts";
import { startDnsServer } from "./support/dns_server.ts";
import { migratedDatabase } from "./support/postgres.ts";
import { until } from "./support/process.ts";

let first: TestApi;
beforeAll(async () => {
  first = await startApi();
});
afterAll(() => first.stop());

/** Runs a second replica of the API on the first one's database while `use` runs. */
async function withReplica(
  options: Parameters<typeof startApi>[0],
  use: (api: TestApi) => Promise<void>,
): Promise<void> {
  const api = await startApi({ shares: first, ...options });
  try {
    await use(api);
  } finally {
    await api.stop();
  }
}

describe("the API role", () => {
  test("closes all connections to its database when it stops", async () => {
    const database = await migratedDatabase();
    const api = await startApi({ databaseUrl: database.url });
    await api.person();
    await api.stop();
    const { rows } = await first.db.raw("select application_name from pg_stat_activity where datname = ?", [
      new URL(database.url).pathname.slice(1),
    ]);
    expect(rows).toEqual([]);
    await database.drop();
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

  test.each(["/docs", "/openapi.json", "/asyncapi.json"])("serves %s outside development", async (path) => {
    await withReplica({ config: { DEVELOPMENT: false } }, async (api) => {
      expect((await api.client().get(path)).status).toBe(200);
    });
  });

  test("opens the port for operators if only a clusters file is set", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deputize-api-"));
    const file = join(folder, "clusters.yaml");
    await writeFile(file, "clusters: []\n");
    const config = { OPERATOR_TOKEN: undefined, CLUSTERS_FILE: file };
    await withReplica({ config }, async (api) => {
      const answer = await api.operatorClient().post("/internal/v1/state", { external_ids: [] });
      expect(answer.status).toBe(401);
    });
    await rm(folder, { recursive: true });
  });

  test("refuses connections of one address beyond CONNECTIONS_PER_IP", async () => {
    await withReplica({ config: { CONNECTIONS_PER_IP: 3, BODIES_PER_IP: 1 } }, async (api) => {
      const sockets: Socket[] = [];
      const statusOfNext = async () => {
        const socket = connect(api.port, "127.0.0.1", () =>
          socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        );
        sockets.push(socket);
        const [answer] = await once(socket, "data");
        return String(answer).split(" ")[1];
      };
      const statuses = [];
      for (let n = 0; n < 4; n += 1) statuses.push(await statusOfNext());
      expect(statuses).toEqual(["404", "404", "404", "429"]);
      for (const socket of sockets) socket.destroy();
    });
  });

  test("looks up domains at DOMAIN_RESOLVERS", async () => {
    const dns = await startDnsServer();
    await withReplica({ lookupTxt: undefined, config: { DOMAIN_RESOLVERS: [dns.address] } }, async (api) => {
      const { client } = await api.person({ organization_name: "Engines" });
      const domains = "/v1/service/organization/domains";
      const { body } = await client.post(domains, { domain: "engines.example.com" });
      const { name, value } = body.record as { name: string; value: string };
      dns.records.set(name, [[value]]);
      expect((await client.post(`${domains}/engines.example.com/verify`)).status).toBe(200);
      expect(dns.asked.map((asked) => asked.name)).toContain(name);
    });
    await dns.stop();
  });

  test("mails the notices that wait", async () => {
    const { accountId, email } = await first.person();
    const payload = {
      event: "credits.low",
      account_id: accountId,
      level: "low",
      balance_micro_usd: 1_998_000,
      low_at_micro_usd: 2_000_000,
      price_micro_usd: 500,
      occurred_at: "2026-01-31T09:30:00.000Z",
    };
    await first.db("notices").insert({
      event_id: randomUUID(),
      account_id: accountId,
      type: "credits.low",
      payload: JSON.stringify(payload),
      state: "waiting",
      attempts: 0,
      created_at: first.clock.now(),
      next_attempt_at: first.clock.now(),
    });
    await until("the notice is sent", async () => {
      return (await first.db("notices").where({ account_id: accountId, state: "sent" })).length === 1;
    });
    const { body } = await first.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
    const mails = body.mails as { to: string; subject: string }[];
    expect(mails.filter((mail) => mail.to === email).map((mail) => mail.subject)).toContain(
      "Your credit is running low",
    );
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
