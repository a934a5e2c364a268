import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ApiConfig, settingSchemas } from "../src/config.ts";
import { freePort } from "../src/dev/process/ports.ts";
import { connectRaw } from "./http/support/raw_client.ts";
import { callsOf, certify } from "./proofs/application.ts";
import { type Person, startApi, type TestApi, withReplica } from "./support/api.ts";
import type { HttpAnswer } from "./support/http.ts";
import { createAgent, registerPlatform, type TestPlatform } from "./support/platform_world.ts";
import { startSmtp } from "./support/smtp.ts";
import { startDnsServer } from "./support/surroundings/dns_server.ts";

const CHIEF = "chief@example.test";
const OWN_TOKEN = "another-token-of-the-tests-with-32-characters";
/** Settings that differ from their defaults and from each other. */
const config = {
  HOST: "127.0.0.2",
  OPERATOR_HOST: "127.0.0.3",
  OPERATOR_TOKEN: OWN_TOKEN,
  TRUSTED_PROXIES: ["127.0.0.0/8"],
  CONNECTIONS: 40,
  CONNECTIONS_PER_IP: 1,
  ALPHA_CREDITS_MICRO_USD: 7_000_000,
  ACCOUNT_CEILING: ["data:*", "custom:*"],
  SEND_CODE_PER_IP: 8,
  SEND_CODE_PER_ADDRESS: 2,
  SEND_CODE_PER_DAY: 4,
  VERIFY_CODE_PER_IP: 3,
  PRESENT_PER_MINUTE: 12,
  AGENTS_PER_DAY: 5,
  REFUSED_PROOFS_PER_MINUTE: 9,
  SERVICE_ADMINISTRATORS: [CHIEF],
  SIGN_IN_URL: "https://sign-in.example.test/here",
  SUPPORT_CONTACT: "help@example.test",
} satisfies Partial<ApiConfig>;

let api: TestApi;
let person: Person;
let platform: TestPlatform;
let agentId: string;
beforeAll(async () => {
  api = await startApi({ config });
  person = await api.person();
  platform = await registerPlatform(person, { default_allowed_scopes: ["data:read"] });
  agentId = await createAgent(api.client(), platform);
  await certify({ person, platform }, ["data:read"]);
});
afterAll(() => api.stop());

const from = (address: string) => ({ headers: { "x-forwarded-for": address } });
const send = (email: string, address: string, client = api.client()) =>
  client.post("/v1/auth/email/send-code", { email }, from(address));
const applicationOf = () => callsOf(api.client(), platform, agentId);

/** Makes a call until the answer is 429. Returns the number of other answers. */
async function callsBefore429(call: (n: number) => Promise<HttpAnswer>): Promise<number> {
  for (let n = 0; n < 50; n += 1) if ((await call(n)).status === 429) return n;
  throw new Error("no call was refused");
}

/** Counts the mails with six digits before the first mail with a long code. */
async function digitsBefore(call: (n: number) => Promise<unknown>, email: string): Promise<number> {
  for (let n = 0; n < 20; n += 1) {
    await call(n);
    if ((await api.client().codeFor(email)).length > 6) return n;
  }
  throw new Error("no mail has a long code");
}

/** Opens a connection and sends a request. Returns the status of the answer. */
async function statusOf(port: number, sockets: Socket[], host = "127.0.0.1"): Promise<string | undefined> {
  const socket = connect(port, host, () => socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  sockets.push(socket);
  const answer = await Promise.race([
    once(socket, "data"),
    once(socket, "close").then(() => ["none closed"]),
  ]);
  return String(answer[0]).split(" ")[1];
}

/** Returns the statuses of requests whose connections stay open. */
async function statusesOf(count: number, port: number, host?: string): Promise<(string | undefined)[]> {
  const sockets: Socket[] = [];
  const statuses = [];
  for (let n = 0; n < count; n += 1) statuses.push(await statusOf(port, sockets, host));
  for (const socket of sockets) socket.destroy();
  return statuses;
}

/** How the running API obeys each setting. */
const OBEYED: Partial<Record<keyof ApiConfig, () => Promise<void>>> = {
  async HOST() {
    expect(new URL(api.url).hostname).toBe(config.HOST);
    await expect(fetch(`http://127.0.0.1:${api.port}/`)).rejects.toThrow("fetch failed");
  },
  async OPERATOR_HOST() {
    const { status } = await api.operator("POST", "/internal/v1/state", { external_ids: [] });
    expect([new URL(api.operatorUrl).hostname, status]).toEqual([config.OPERATOR_HOST, 200]);
  },
  async PORT() {
    const [PORT, OPERATOR_PORT] = [await freePort(), await freePort()];
    await withReplica(api, { config: { PORT, OPERATOR_PORT } }, async ({ url, operatorUrl }) => {
      expect([new URL(url).port, new URL(operatorUrl).port]).toEqual([`${PORT}`, `${OPERATOR_PORT}`]);
    });
  },
  async OPERATOR_TOKEN() {
    const trusted = { get: () => undefined, close: async () => {} };
    await withReplica(api, { trusted, config: { OPERATOR_TOKEN: OWN_TOKEN } }, async (replica) => {
      const read = (token?: string) =>
        replica.operator("POST", "/internal/v1/state", { external_ids: [] }, token ? { token } : {});
      expect([(await read(OWN_TOKEN)).status, (await read()).status]).toEqual([200, 401]);
    });
  },
  async TRUSTED_PROXIES() {
    for (const address of ["198.51.100.1", "198.51.100.2"]) {
      const calls = await callsBefore429((n) => send(`proxied${n}@${address}.example.test`, address));
      expect(calls).toBe(config.SEND_CODE_PER_IP);
    }
    expect(await statusesOf(3, api.port, config.HOST)).toEqual(["404", "404", "404"]);
  },
  async CONNECTIONS() {
    await withReplica(api, { config: { CONNECTIONS: 2, CONNECTIONS_PER_IP: 9 } }, async ({ port }) => {
      const busy = connect(port, "127.0.0.1", () => busy.write("GET / HTTP/1.1\r\n"));
      await once(busy, "connect");
      const sockets = [busy];
      const other = await statusOf(port, sockets);
      expect([other, await statusOf(port, sockets)]).toEqual(["404", "closed"]);
      for (const socket of sockets) socket.destroy();
    });
  },
  async CONNECTIONS_PER_IP() {
    await withReplica(api, { config: { CONNECTIONS_PER_IP: 3, BODIES_PER_IP: 1 } }, async ({ port }) => {
      expect(await statusesOf(4, port)).toEqual(["404", "404", "404", "429"]);
    });
  },
  async KEEP_ALIVE_SECONDS() {
    await withReplica(api, { config: { KEEP_ALIVE_SECONDS: 700 } }, async ({ url }) => {
      expect((await fetch(url)).headers.get("keep-alive")).toBe("timeout=700");
    });
  },
  async BODIES_PER_IP() {
    await withReplica(api, { config: { BODIES_PER_IP: 1, CONNECTIONS_PER_IP: 20 } }, async (replica) => {
      const head = "POST /v1/auth/email/send-code HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
      const unfinished = await connectRaw(replica.port, { send: `${head}Content-Length: 50\r\n\r\n{` });
      const email = `${randomUUID()}@example.test`;
      const post = () => replica.client().post("/v1/auth/email/send-code", { email });
      await expect.poll(async () => (await post()).status).toBe(429);
      unfinished.socket.destroy();
      await unfinished.closed;
      await expect.poll(async () => (await post()).status).toBe(200);
    });
  },
  async ALPHA_CREDITS_MICRO_USD() {
    const { body } = await person.client.get("/v1/service/credits");
    expect(body.balance_micro_usd).toBe(config.ALPHA_CREDITS_MICRO_USD);
  },
  async ACCOUNT_CEILING() {
    const row = await api.db("accounts").where({ account_id: person.accountId }).first();
    expect(api.vault.keys.get(row?.root_key_id ?? "")?.ceiling).toEqual(config.ACCOUNT_CEILING);
  },
  async SEND_CODE_PER_IP() {
    const calls = await callsBefore429((n) => send(`sent${n}@example.test`, "203.0.113.1"));
    expect(calls).toBe(config.SEND_CODE_PER_IP);
  },
  async VERIFY_CODE_PER_IP() {
    const code = { email: "tried@example.test", code: "000000" };
    const calls = await callsBefore429(() =>
      api.client().post("/v1/auth/email/verify-code", code, from("203.0.113.2")),
    );
    expect(calls).toBe(config.VERIFY_CODE_PER_IP);
  },
  async SEND_CODE_PER_ADDRESS() {
    const email = "without-cookie@example.test";
    expect(await digitsBefore(() => send(email, "203.0.113.3"), email)).toBe(config.SEND_CODE_PER_ADDRESS);
  },
  async SEND_CODE_PER_DAY() {
    const [email, browsers] = ["two-browsers@example.test", [api.client(), api.client()]];
    const next = (n: number) => send(email, "203.0.113.4", browsers[n % 2]);
    expect(await digitsBefore(next, email)).toBe(config.SEND_CODE_PER_DAY);
  },
  async SIGN_IN_URL() {
    const email = "linked@example.test";
    await digitsBefore(() => send(email, "203.0.113.5"), email);
    const { body } = await api.client().get("/dev/mailbox", { headers: { accept: "application/json" } });
    const [mail] = (body.mails as { to: string; text: string }[]).filter(({ to }) => to === email);
    expect(mail?.text).toContain(`${config.SIGN_IN_URL}#code=`);
  },
  async PRESENT_PER_MINUTE() {
    const { headers } = await applicationOf().present();
    expect(headers.get("ratelimit-policy")).toBe(`"present";q=${config.PRESENT_PER_MINUTE};w=60`);
  },
  async AGENTS_PER_DAY() {
    const path = `/v1/service/connections/${platform.connectionId}/agents`;
    const body = { name: "next", agent_type: "api_agent" };
    const { headers } = await applicationOf().post(path, body);
    expect(headers.get("ratelimit-policy")).toBe(`"agents";q=${config.AGENTS_PER_DAY};w=86400`);
  },
  async REFUSED_PROOFS_PER_MINUTE() {
    const app = applicationOf();
    const proof = (await app.proof()) as { challenge_sig: object };
    const ed25519 = Buffer.alloc(64, 1).toString("base64");
    const forged = { ...proof, challenge_sig: { ...proof.challenge_sig, ed25519 } };
    expect(await callsBefore429(() => app.verify(forged))).toBe(config.REFUSED_PROOFS_PER_MINUTE);
  },
  async SERVICE_ADMINISTRATORS() {
    const chief = api.client();
    await chief.onboard(CHIEF);
    const statuses = [];
    for (const client of [chief, person.client]) {
      statuses.push((await client.get("/v1/service/installation/parts/api")).status);
    }
    expect(statuses).toEqual([200, 404]);
  },
  async SUPPORT_CONTACT() {
    const { text } = await person.client.get("/console/credit", { headers: { accept: "text/html" } });
    expect(text.includes(config.SUPPORT_CONTACT)).toBe(true);
  },
  async DOMAIN_RESOLVERS() {
    const dns = await startDnsServer();
    const options = { lookupTxt: undefined, config: { DOMAIN_RESOLVERS: [dns.address] } };
    await withReplica(api, options, async (replica) => {
      const { client } = await replica.person({ organization_name: "Engines" });
      const domains = "/v1/service/organization/domains";
      const { body } = await client.post(domains, { domain: "engines.example.com" });
      const { name, value } = body.record as { name: string; value: string };
      dns.records.set(name, [[value]]);
      expect((await client.post(`${domains}/engines.example.com/verify`)).status).toBe(200);
      expect(dns.asked.map((asked) => asked.name)).toContain(name);
    });
    await dns.stop();
  },
  async SMTP_URL() {
    const smtp = await startSmtp();
    const mail = { SMTP_URL: smtp.url, MAIL_FROM: "Desk <desk@example.test>" };
    await withReplica(api, { config: mail }, async (replica) => {
      const answer = await replica
        .client()
        .post("/v1/auth/email/send-code", { email: "mailed@example.test" });
      expect(answer.status).toBe(200);
    });
    expect(smtp.mails.map((each) => [each.from, each.to])).toEqual([
      ["desk@example.test", ["mailed@example.test"]],
    ]);
    await smtp.stop();
  },
  async DATABASE_URL() {
    const name = new URL(api.databaseUrl).pathname.slice(1);
    for (const pool of Object.values(api.pools)) {
      expect((await pool.query("select current_database() as name")).rows).toEqual([{ name }]);
    }
    const { rows } = await api.db.raw("select application_name from pg_stat_activity where datname = ?", [
      name,
    ]);
    const names = rows.map((row: { application_name: string }) => row.application_name);
    expect(names).toEqual(expect.arrayContaining(["deputize-api", "deputize-api-keys"]));
  },
  async SEALING_KEY() {
    const enter = async (own: TestApi, email: string) => {
      await send(email, "203.0.113.6");
      const code = await api.client().codeFor(email);
      return (await own.client().post("/v1/auth/email/verify-code", { email, code })).status;
    };
    await withReplica(api, {}, async (same) => {
      expect(await enter(same, "same@example.test")).toBe(200);
    });
    const other = await startApi({ databaseUrl: api.databaseUrl });
    expect(await enter(other, "other@example.test")).toBe(400);
    await other.stop();
  },
  async DRAIN_SECONDS() {
    let isLongDrained = false;
    await withReplica(api, { config: { DRAIN_SECONDS: 300 } }, async (long) => {
      void long.drain().then(() => {
        isLongDrained = true;
      });
      await withReplica(api, { config: { DRAIN_SECONDS: 0.4 } }, async (replica) => {
        const start = performance.now();
        const drained = replica.drain().then(() => performance.now() - start);
        const answer = await replica.client().get("/openapi.json");
        expect([answer.status, answer.headers.get("connection")]).toEqual([200, "close"]);
        expect((await replica.operatorClient().get("/")).headers.get("connection")).toBe("close");
        expect(await drained).toBeGreaterThanOrEqual(390);
        expect(isLongDrained).toBe(false);
      });
    });
  },
  async WEBHOOK_ALLOWED_CIDRS() {
    await withReplica(
      api,
      { config: { DEVELOPMENT: false, WEBHOOK_ALLOWED_CIDRS: ["10.1.0.0/16"] } },
      async (own) => {
        expect(await callbackAnswer(own, "https://10.1.2.3/hook")).toBe(201);
        expect(await callbackAnswer(own, "https://10.2.2.3/hook")).toBe(400);
      },
    );
  },
  async DEVELOPMENT() {
    for (const [DEVELOPMENT, status] of [
      [true, 201],
      [false, 400],
    ] as const) {
      await withReplica(
        api,
        { config: { DEVELOPMENT, WEBHOOK_ALLOWED_CIDRS: ["127.0.0.0/8"] } },
        async (own) => {
          expect(await callbackAnswer(own, "http://127.0.0.1:8080/hook")).toBe(status);
        },
      );
    }
  },
};

async function callbackAnswer(own: TestApi, callback_url: string): Promise<number> {
  const { client } = await own.person({ organization_name: "Engines" });
  const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
  return (await client.post("/v1/service/platforms", { ...body, callback_url })).status;
}

/** The files that show that a running API obeys the other settings, and that name them. */
const ELSEWHERE: Record<string, string> = {
  CHANGES_PER_MINUTE: "http/red_team_storage.test.ts",
  REQUESTS_PER_DAY: "http/red_team_storage.test.ts",
  INVOCATION_DAYS: "upkeep.test.ts",
  SIGN_IN_DAYS: "accounts/sessions/sessions.test.ts",
  UNDECIDED_REQUEST_DAYS: "upkeep.test.ts",
  HISTORY_RETENTION_MONTHS: "upkeep.test.ts",
  BASE_URL: "api_names.test.ts",
  DATABASE_DIRECT_URL: "db/poolers.test.ts",
  DATABASE_POOL_SIZE: "api_pools.test.ts",
  SERVICE_WORD: "api_names.test.ts",
  SERVICE_WORD_ALIASES: "api_names.test.ts",
  OPERATOR_PORT: "api_settings.test.ts",
  MAIL_FROM: "api_settings.test.ts",
  CLUSTERS_FILE: "api_clients.test.ts",
  RECORDED_CLUSTER_ID: "config.test.ts",
  VAULT_URL: "api_clients.test.ts",
  VAULT_CA_FILE: "api_clients.test.ts",
  VAULT_CERT_FILE: "api_clients.test.ts",
  VAULT_KEY_FILE: "api_clients.test.ts",
};
/** Settings of every role, which the start of the role uses. */
const OF_ROLES = ["LOG_LEVEL", "HEALTH_HOST", "HEALTH_PORT"];

describe("a running API", () => {
  test.each(Object.entries(OBEYED))("obeys %s", (_, check) => check());

  test("has a test for each of its settings", () => {
    const settings = Object.keys(settingSchemas.api.shape).filter((name) => !OF_ROLES.includes(name));
    expect([...Object.keys(OBEYED), ...Object.keys(ELSEWHERE)].sort()).toEqual(settings.sort());
    for (const [name, file] of Object.entries(ELSEWHERE)) {
      expect(readFileSync(new URL(file, import.meta.url), "utf8"), file).toMatch(
        new RegExp(`\\b${name}\\b.*[:\\],]`),
      );
    }
  });
});
