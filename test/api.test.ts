import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../src/clock.ts";
import { setScene } from "./http/walk/scene.ts";
import { startApi, type TestApi } from "./support/api.ts";
import { steeredClock } from "./support/clock.ts";
import { startDnsServer } from "./support/dns_server.ts";
import { createFakeVault } from "./support/fake_vault.ts";
import { createAgent, registerPlatform } from "./support/platform_world.ts";
import { migratedDatabase } from "./support/postgres.ts";
import { until } from "./support/process.ts";

const DAY = 24 * 60 * 60;
const PATIENT = { timeout: 20_000 };

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

  test("sends to the vault the changes of agents that are due, although no call is made", async () => {
    const person = await first.person();
    const agentId = await createAgent(first.client(), await registerPlatform(person));
    await first.db("agents").where({ agent_id: agentId }).update({ vault_due_at: first.clock.now() });
    const vault = Object.assign(createFakeVault(), { shrinkCeiling: async () => void called.push("shrink") });
    const called: string[] = [];
    await withReplica({ vault }, async () => {
      await expect.poll(() => called, PATIENT).toEqual(["shrink"]);
    });
  });
});

/** Things that upkeep does after a time. `remaining` counts what it has not done yet. */
const UPKEEP: {
  title: string;
  seconds: number;
  prepare(api: TestApi): Promise<void>;
  remaining(api: TestApi): Promise<number>;
}[] = [
  {
    title: "deletes sign-in mails that no limit counts",
    seconds: 40 * DAY,
    prepare: async (api) => void (await api.client().signIn("mailed@example.test")),
    remaining: async ({ db }) => (await db("sign_in_mails")).length,
  },
  {
    title: "deletes the counts of rate limits that ended",
    seconds: 2 * DAY,
    prepare: async (api) => void (await api.client().signIn("counted@example.test")),
    remaining: async ({ db }) => (await db("rate_limits").where("key", "like", "send_code_ip%")).length,
  },
  {
    title: "deletes sessions long after they expired",
    seconds: 100 * DAY,
    prepare: async (api) => void (await api.person()),
    remaining: async ({ db }) => (await db("sessions")).length,
  },
  {
    title: "deletes invitations that expired",
    seconds: 8 * DAY,
    async prepare(api) {
      const { client } = await api.person({ organization_name: "Engines" });
      const body = { email: "invited@example.test", role: "auditor" };
      expect((await client.post("/v1/service/organization/members", body)).status).toBe(201);
    },
    remaining: async ({ db }) => (await db("organization_invitations")).length,
  },
  {
    title: "erases secrets in stored answers",
    seconds: 60 * 60,
    prepare: registerWithKey,
    remaining: async ({ db }) =>
      (await db("idempotency_keys").whereRaw("octet_length(answer_sealed) > 0")).length,
  },
  {
    title: "deletes stored answers",
    seconds: 3 * DAY,
    prepare: registerWithKey,
    remaining: async ({ db }) => (await db("idempotency_keys")).length,
  },
  {
    title: "deletes decided invocations after INVOCATION_DAYS",
    seconds: 31 * DAY,
    prepare: async (api) => void (await setScene(api)),
    remaining: async ({ db }) => (await db("invocations")).length,
  },
  {
    title: "deletes presented proofs whose challenge expired",
    seconds: 60 * 60,
    prepare: async (api) => void (await (await setScene(api)).proof()),
    remaining: async ({ db }) => (await db("audit_events").where({ event_type: "proof.presented" })).length,
  },
  {
    title: "looks up verified domains again each day",
    seconds: 2 * DAY,
    async prepare(api) {
      const { client } = await api.person({ organization_name: "Engines" });
      await client.post("/v1/service/organization/domains", { domain: "again.example.com" });
      await client.post("/v1/service/organization/domains/again.example.com/verify");
    },
    remaining: async ({ db, clock }) =>
      (await db("organization_domains").where("checked_at", "<=", clock.now())).length,
  },
];

async function registerWithKey(api: TestApi): Promise<void> {
  const { client } = await api.person({ organization_name: "Engines" });
  const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
  const headers = { "idempotency-key": randomUUID() };
  expect((await client.post("/v1/service/platforms", body, { headers })).status).toBe(201);
}

describe("the upkeep of a running API", () => {
  test.each(UPKEEP)("$title", async ({ seconds, prepare, remaining }) => {
    const before = first.clock.now();
    await prepare(first);
    expect(await remaining(first)).toBeGreaterThan(0);
    const clock = steeredClock(addSeconds(before, seconds));
    await withReplica({ clock }, async () => {
      await expect.poll(() => remaining(first), PATIENT).toBe(0);
    });
  });

  test("logs a fault, and continues after the fault", async () => {
    await first.db.raw("alter table idempotency_keys rename to hidden_keys");
    await withReplica({}, async (api) => {
      const logged = (text: string) => api.lines.filter((line) => line.includes(text)).length;
      await expect.poll(() => logged("not working, trying again"), PATIENT).toBeGreaterThan(0);
      await first.db.raw("alter table hidden_keys rename to idempotency_keys");
      await expect.poll(() => logged("working again"), PATIENT).toBeGreaterThan(0);
    });
  });
});
