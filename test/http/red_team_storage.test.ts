import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { type Person, runningApi, type TestApi, withReplica } from "../support/api.ts";
import { createAgent, errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import { contract, declaredRoutes } from "./walk/documented.ts";

const api = runningApi();
const page = readFileSync(new URL("../../docs/security.md", import.meta.url), "utf8");
const section = page.slice(page.indexOf("### What an account can store"), page.indexOf("## A cluster"));

let person: Person;
let platform: TestPlatform;
beforeAll(async () => {
  person = await api.person();
  platform = await registerPlatform(person);
  await createAgent(api.client(), platform);
});

/** Every limit that the settings can choose, used up. */
const USED_UP = {
  SEND_CODE_PER_IP: 0,
  VERIFY_CODE_PER_IP: 0,
  PRESENT_PER_MINUTE: 0,
  AGENTS_PER_DAY: 0,
  CHANGES_PER_MINUTE: 0,
};

/** A client of another replica with the same session. */
function signedIn(replica: TestApi) {
  const client = replica.client();
  for (const name of ["service_session", "service_refresh", "service_csrf"]) {
    client.setCookie(name, person.client.cookie(name) ?? "");
  }
  return client;
}

const changing = declaredRoutes.filter(
  ({ method, access, reads = method === "GET" }) => !reads && access !== "operator",
);

/** Calls an operation with the person's session, or with the connection's API key. */
function call(replica: TestApi, { id, method, path, access }: (typeof changing)[number]) {
  const body = contract.operation(id).requestBody?.content["application/json"]?.example;
  const address = path
    .replace("{connection_id}", platform.connectionId)
    .replaceAll(/\{[^}]+\}/g, "0198f1c2-7a3b-7c4d-8e5f-60718293a4b5");
  return access === "api_key"
    ? replica.client().call(method, address, { body, headers: { "x-service-api-key": platform.apiKey } })
    : signedIn(replica).call(method, address, { body });
}

describe("an account that repeats its calls", () => {
  test("the account is refused at a limit by every call that changes something, except decisions", async () => {
    const unlimited: string[] = [];
    await withReplica(api, { config: USED_UP }, async (replica) => {
      for (const route of changing) {
        const answer = await call(replica, route);
        if (answer.status !== 429) unlimited.push(route.id.replace(/^(ext_auth)_.*/, "$1"));
      }
    });
    expect(changing.length).toBeGreaterThan(50);
    const named = [...section.matchAll(/^- (`.+?`):/gm)].flatMap(([, ids = ""]) => namesIn(ids));
    expect(new Set(unlimited)).toEqual(new Set(named));
  });

  test("leaves rows only in tables for which the security page has a limit", () => {
    const listed = [...section.matchAll(/^\| (`[a-z].*?`) \|/gm)].flatMap(([, names = ""]) => namesIn(names));
    expect(new Set(listed)).toEqual(tablesWithInserts());
  });

  test("cannot register platforms without end", async () => {
    const owner = await api.person({ organization_name: "Mills" });
    const body = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
    const register = () => owner.client.post("/v1/service/platforms", body);
    expect((await register()).status).toBe(201);
    const [row] = await api.db("rate_limits").whereLike("key", "create_platform_%").orderBy("expire", "desc");
    await api
      .db("rate_limits")
      .where({ key: row?.key ?? "" })
      .update({ points: 100 });
    const refused = await register();
    expect([refused.status, errorCode(refused)]).toEqual([429, "action_limited"]);
  });
});

describe("the limit of one sign-in's changes", () => {
  const config = { CHANGES_PER_MINUTE: 3 };
  const change = (client: Pick<Person["client"], "post">) =>
    client.post("/v1/service/delegations/self-request", { connection_id: platform.connectionId });

  test("refuses the next change, and recovers with time", async () => {
    await withReplica(api, { config }, async (replica) => {
      const client = signedIn(replica);
      const statuses = [];
      for (let n = 0; n < 4; n += 1) statuses.push((await change(client)).status);
      expect(statuses).toEqual([201, 201, 201, 429]);
      const refused = await change(client);
      expect([errorCode(refused), refused.headers.get("retry-after")]).toEqual(["rate_limited", "20"]);
      replica.clock.advance(20);
      expect((await change(client)).status).toBe(201);
    });
  });

  test("prevents no revocation, refresh or sign-out, and no change of another sign-in", async () => {
    const other = api.client();
    await other.signIn(person.email);
    await withReplica(api, { config }, async (replica) => {
      const client = signedIn(replica);
      for (let n = 0; n < 4; n += 1) await change(client);
      expect((await change(client)).status).toBe(429);
      const second = replica.client();
      for (const name of ["service_session", "service_csrf"]) {
        second.setCookie(name, other.cookie(name) ?? "");
      }
      expect((await change(second)).status).toBe(201);
      expect((await second.post("/v1/auth/logout")).status).toBe(200);
      const revoked = await client.post("/v1/service/delegations/none/revoke", {});
      expect([revoked.status, errorCode(revoked)]).toEqual([404, "not_found"]);
    });
  });

  test("does not count cross-site calls, which lack the CSRF header", async () => {
    await withReplica(api, { config }, async (replica) => {
      const client = signedIn(replica);
      for (let n = 0; n < 9; n += 1) {
        const forged = await client.post("/v1/auth/logout", {}, { csrf: false });
        expect(errorCode(forged)).toBe("csrf_failed");
      }
      expect((await change(client)).status).toBe(201);
    });
  });
});

describe("the limit of a person's requests", () => {
  test("counts the requests of a day, but none that failed", async () => {
    const own = await api.person();
    const shop = await registerPlatform(own);
    const { connectionId } = shop;
    await createAgent(api.client(), shop);
    await withReplica(api, { config: { REQUESTS_PER_DAY: 2 } }, async (replica) => {
      const client = replica.client();
      for (const name of ["service_session", "service_csrf"]) {
        client.setCookie(name, own.client.cookie(name) ?? "");
      }
      const ask = (fields = {}) =>
        client.post("/v1/service/delegations/self-request", { connection_id: connectionId, ...fields });
      const answers = [await ask(), await ask({ requested_scope: ["files:read"] }), await ask(), await ask()];
      expect(answers.map(({ status }) => status)).toEqual([201, 400, 201, 429]);
      expect(answers.at(-1)?.headers.has("retry-after")).toBe(true);
    });
  });
});

/** Returns the names in a list such as "`agents`, `api_keys`". */
function namesIn(list: string): string[] {
  return [...list.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);
}

/** Returns the tables into which a statement in the sources inserts rows. */
function tablesWithInserts(): Set<string> {
  const root = fileURLToPath(new URL("../../src/", import.meta.url));
  const files = readdirSync(root, { recursive: true, encoding: "utf8" });
  const sources = files
    .filter((path) => path.endsWith(".ts") && !path.includes("migrations"))
    .map((path) => readFileSync(`${root}${path}`, "utf8"));
  const INSERTS =
    /\binsert into (\w+)|\b(?:db|tx)\(\s*"(\w+)(?: as \w+)?"\s*\)\s*\.insert\b|\bbatchInsert\(\s*"(\w+)"/g;
  const found = sources.flatMap((text) => [...text.matchAll(INSERTS)]);
  return new Set(found.map(([, raw, built, batch]) => raw ?? built ?? batch ?? ""));
}
