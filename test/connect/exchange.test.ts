import { beforeAll, describe, expect, test } from "vitest";
import { hashCode, pruneConnectCodes } from "../../src/connect/approve_connect.ts";
import { type Person, runningApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { actingFor, addMember } from "../support/members.ts";
import { registerPlatform } from "../support/platform_world.ts";
import { connectScene, ISSUER, type Product } from "./scene.ts";

const api = runningApi();
const scene = connectScene(api);
const { product, begun, approve, code, post, exchange, customers } = scene;

let shop: Product;
let other: Product;
beforeAll(async () => {
  [shop, other] = [await product(), await product()];
});

const seen = ({ status, body }: HttpAnswer) => [status, body.error ?? "connected"];
const REFUSED = [400, "invalid_grant"];
const CONNECTED = [200, "connected"];
const live = (of: Product) => customers(of).whereNull("removed_at");

describe("the exchange of a code", () => {
  test("creates the connection with its key, and returns both once", async () => {
    const person = await api.person();
    const decided = await code(shop, person, {
      scopes: ["data:share", "custom:shop:refund"],
      shownName: "Ada",
    });
    expect(await customers(shop).where({ customer_account_id: person.accountId })).toEqual([]);
    const answer = await exchange(shop, decided);
    const { connection_id, access_token } = answer.body;
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        access_token: expect.stringMatching(/^dpz_/),
        token_type: "Bearer",
        scope: expect.any(String),
        connection_id: expect.any(String),
        platform_id: shop.platformId,
        org_id: person.accountId,
        org_name: "Ada",
        manage_url: `${ISSUER}/console/products/${String(connection_id)}`,
      },
    ]);
    expect(String(answer.body.scope).split(" ").sort()).toEqual(["custom:shop:refund", "data:share"]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const own = await api.client().get("/v1/service/connection", {
      headers: { "x-service-api-key": String(access_token) },
    });
    expect(own.body.connection_id).toBe(connection_id);
    expect(await api.events(String(connection_id))).toMatchObject([
      { event: "connection.created", org_id: person.accountId, org_name: "Ada" },
    ]);
  });

  test("keeps the words that the person read", async () => {
    const person = await api.person();
    const decided = await code(shop, person);
    const path = `/v1/service/platforms/${shop.platformId}`;
    const scope_descriptions = {
      "custom:shop:refund": { label: "Look at an order", description: "Harmless" },
    };
    await shop.owner.client.call("PATCH", path, { body: { scope_descriptions } });
    const { connection_id } = (await exchange(shop, decided)).body;
    const kept = await api.db("connect_consents").where({ connection_id: String(connection_id) });
    expect(kept).toMatchObject([
      {
        person_id: person.accountId,
        scopes: ["data:read"],
        is_test: false,
        consent: {
          platform_name: "Shop",
          publisher_name: "Shop Works",
          published_domain: shop.domain,
          account_label: null,
          scopes: ["data:read", "data:share", "custom:shop:refund"],
          scope_descriptions: { "custom:shop:refund": { label: "Refund an order" } },
        },
      },
    ]);
  });

  test("refuses a code that is sent twice, and keeps the connection", async () => {
    const decided = await code(shop, await api.person());
    const first = await exchange(shop, decided);
    expect(seen(first)).toEqual(CONNECTED);
    expect(seen(await exchange(shop, decided))).toEqual(REFUSED);
    const { status } = await api.client().get("/v1/service/connection", {
      headers: { "x-service-api-key": String(first.body.access_token) },
    });
    expect(status).toBe(200);
  });

  test("accepts a code in its last millisecond, and refuses it afterwards", async () => {
    const person = await api.person();
    const [timely, late] = [await code(shop, person), await code(shop, person)];
    api.clock.advance(59.999);
    expect(seen(await exchange(shop, timely))).toEqual(CONNECTED);
    api.clock.advance(0.001);
    expect(seen(await exchange(shop, late))).toEqual(REFUSED);
    await pruneConnectCodes({ db: api.db, now: api.clock.now() });
    expect(await api.db("connect_codes").where({ code_hash: hashCode(late.code) })).toEqual([]);
  });

  test("refuses an injected code: another verifier, redirect URI or client does not spend it", async () => {
    const decided = await code(shop, await api.person());
    const mallory = await begun(shop);
    for (const verifier of [mallory.verifier, "", "x".repeat(42), `${decided.verifier}=`]) {
      const answer = await exchange(shop, { ...decided, verifier });
      expect([400], verifier).toContain(answer.status);
    }
    expect(seen(await exchange(shop, decided, { redirect_uri: `${shop.redirect}/` }))).toEqual(REFUSED);
    expect(seen(await exchange(other, decided))).toEqual(REFUSED);
    expect(seen(await exchange(other, decided, { redirect_uri: shop.redirect }))).toEqual(REFUSED);
    expect(seen(await exchange(shop, { ...decided, code: "a".repeat(43) }))).toEqual(REFUSED);
    expect(seen(await exchange(shop, decided))).toEqual(CONNECTED);
  });

  test("refuses an intercepted code without the client's secret", async () => {
    const decided = await code(shop, await api.person());
    for (const wrong of [{ client_secret: other.secret }, { client_secret: "" }, { client_id: "" }]) {
      expect(seen(await exchange(shop, decided, wrong))).toEqual([401, "invalid_client"]);
    }
    expect(seen(await exchange(shop, decided))).toEqual(CONNECTED);
  });

  test("creates one connection from 100 simultaneous exchanges of a code", async () => {
    const person = await api.person();
    const decided = await code(shop, person);
    const answers = await Promise.all(Array.from({ length: 100 }, () => exchange(shop, decided)));
    const connected = answers.filter(({ status }) => status === 200);
    expect(connected).toHaveLength(1);
    expect(
      new Set(answers.filter((each) => !connected.includes(each)).map((each) => String(seen(each)))),
    ).toEqual(new Set([String(REFUSED)]));
    expect(await live(shop).where({ customer_account_id: person.accountId })).toHaveLength(1);
  });

  test("creates one connection from two codes of a customer at the same moment", async () => {
    const person = await api.person();
    const decided = [await code(shop, person), await code(shop, person, { scopes: ["data:share"] })];
    const answers = await Promise.all(decided.map((each) => exchange(shop, each)));
    expect(answers.map(seen)).toEqual([CONNECTED, CONNECTED]);
    expect(new Set(answers.map(({ body }) => body.connection_id)).size).toBe(1);
    expect(new Set(answers.map(({ body }) => body.access_token)).size).toBe(2);
    expect(await live(shop).where({ customer_account_id: person.accountId })).toHaveLength(1);
  });

  test("replaces the code when the same request is approved again", async () => {
    const person = await api.person();
    const { requestId, verifier, code: first } = await code(shop, person);
    const second = new URL(await approve(person, requestId)).searchParams.get("code") ?? "";
    expect(seen(await exchange(shop, { code: first, verifier }))).toEqual(REFUSED);
    expect(seen(await exchange(shop, { code: second, verifier }))).toEqual(CONNECTED);
  });

  test("checks again that the platform is published, and has the redirect URI", async () => {
    const shop = await product();
    const person = await api.person();
    const path = `/v1/service/platforms/${shop.platformId}`;
    const unpublished = await code(shop, person);
    await shop.owner.client.post(`${path}/unpublish`);
    const answer = await exchange(shop, unpublished);
    expect(seen(answer)).toEqual(REFUSED);
    expect(answer.body.error_description).toMatch(/^forbidden: /);
    await shop.owner.client.post(`${path}/publish`);
    const moved = await code(shop, person);
    await shop.owner.client.call("PATCH", path, { body: { redirect_uris: [] } });
    expect(seen(await exchange(shop, moved))).toEqual(REFUSED);
    await shop.owner.client.call("PATCH", path, { body: { redirect_uris: [shop.redirect] } });
    const suspended = await code(shop, person);
    await shop.owner.client.call("DELETE", `/v1/service/organization/domains/${shop.domain}`);
    expect(seen(await exchange(shop, suspended))).toEqual(REFUSED);
    expect(await customers(shop)).toEqual([]);
  });

  test("checks again that the ceiling has the scopes, and that the platform is not removed", async () => {
    const shop = await product();
    const person = await api.person();
    const narrowed = await code(shop, person, { scopes: ["data:share"] });
    const body = { default_allowed_scopes: ["data:read"] };
    await shop.owner.client.call("PATCH", `/v1/service/platforms/${shop.platformId}`, { body });
    expect(seen(await exchange(shop, narrowed))).toEqual(REFUSED);
    const removed = await code(shop, person);
    await shop.owner.client.call("DELETE", `/v1/service/connections/${shop.connectionId}`);
    expect(seen(await exchange(shop, removed))).toEqual([401, "invalid_client"]);
    expect(await customers(shop)).toEqual([]);
  });

  test("checks again that the person may connect for the organization", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const approver = await addMember(api, owner.accountId, "approver");
    const decided = await code(shop, approver, { accountId: owner.accountId });
    await actingFor(owner, owner.accountId).delete(`/v1/service/organization/members/${approver.accountId}`);
    expect(seen(await exchange(shop, decided))).toEqual(REFUSED);
    const again = await addMember(api, owner.accountId, "approver", approver);
    expect(seen(await exchange(shop, await code(shop, again, { accountId: owner.accountId })))).toEqual(
      CONNECTED,
    );
  });

  test.each([
    [{ grant_type: "client_credentials" }, "unsupported_grant_type"],
    [{ grant_type: "" }, "invalid_request"],
    [{ code: "" }, "invalid_request"],
    [{ redirect_uri: "" }, "invalid_request"],
    [{ code_verifier: "" }, "invalid_request"],
  ])("refuses a call with %j in the form of OAuth", async (wrong, error) => {
    const answer = await exchange(shop, { code: "c", verifier: "v" }, wrong);
    expect([answer.status, answer.body]).toEqual([400, { error, error_description: expect.any(String) }]);
  });

  test("refuses JSON, and a parameter that is repeated", async () => {
    const json = await api.client().post("/v1/service/oauth/token", { grant_type: "authorization_code" });
    expect(seen(json)).toEqual([400, "invalid_request"]);
    const twice = await api.client().call("POST", "/v1/service/oauth/token", {
      body: "code=1&code=2",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect(seen(twice)).toEqual([400, "invalid_request"]);
  });
});

describe("the authentication of a client", () => {
  const basic = (id: string, secret: string) => ({
    authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`,
  });
  const form = { grant_type: "authorization_code", code: "c", redirect_uri: "r", code_verifier: "v" };

  test("accepts HTTP Basic, and names its scheme in a refusal", async () => {
    expect(seen(await post("token", form, basic(shop.platformId, shop.secret)))).toEqual(REFUSED);
    const wrong = await post("token", form, basic(shop.platformId, other.secret));
    expect([...seen(wrong), wrong.headers.get("www-authenticate")]).toEqual([
      ...[401, "invalid_client", 'Basic realm="oauth"'],
    ]);
  });

  test("refuses secrets in two places, and two names of the client", async () => {
    const header = basic(shop.platformId, shop.secret);
    const both = await post("token", { ...form, client_secret: shop.secret }, header);
    const names = await post("token", { ...form, client_id: other.platformId }, header);
    expect([seen(both), seen(names)]).toEqual([
      [400, "invalid_request"],
      [400, "invalid_request"],
    ]);
  });

  test("limits wrong secrets, but never refuses the right one from the same network", async () => {
    const answers: number[] = [];
    for (let n = 0; n < 70; n += 1) {
      answers.push(
        (await exchange(shop, { code: "c", verifier: "v" }, { client_secret: `dps_${n}` })).status,
      );
    }
    expect(answers.slice(-5)).toEqual([429, 429, 429, 429, 429]);
    expect(seen(await exchange(shop, await code(shop, await api.person())))).toEqual(CONNECTED);
    api.clock.advance(60);
  });
});

describe("the approval of a request", () => {
  test("refuses a new name that mixes scripts, and keeps a former one and the account's own", async () => {
    const mixed = "p\u0430ypal";
    const person = await api.person();
    const attempt = async (shownName: string) =>
      (await exchange(shop, await code(shop, person, { shownName }))).body.org_name;
    await expect(attempt(mixed)).rejects.toMatchObject({
      ...{ code: "invalid_request", message: expect.stringContaining("body.shown_name: must not mix") },
    });
    expect(await attempt("Бакери")).toBe("Бакери");
    await customers(shop).where({ customer_account_id: person.accountId }).update({ customer_name: mixed });
    expect(await attempt(mixed)).toBe(mixed);
    const own = { account_id: person.accountId };
    await api.db("accounts").where(own).update({ first_name: "Ольга", last_name: "Smith" });
    expect(await attempt("Ольга Smith")).toBe("Ольга Smith");
  });

  const refusal = (person: Person, shop: Product, choice: Parameters<typeof code>[2] = {}) =>
    code(shop, person, choice).then(
      () => "approved",
      (error: { code?: string }) => error.code,
    );

  test("requires an owner or an approver of the account", async () => {
    const owner = await api.person({ organization_name: "Engines" });
    const { accountId } = owner;
    const of = async (role: "approver" | "developer" | "auditor") =>
      refusal(await addMember(api, accountId, role), shop, { accountId });
    expect(await refusal(owner, shop)).toBe("approved");
    expect(await of("approver")).toBe("approved");
    expect(await of("developer")).toBe("forbidden");
    expect(await of("auditor")).toBe("forbidden");
    expect(await refusal(await api.person(), shop, { accountId })).toBe("forbidden");
  });

  test("refuses scopes beyond the request, no scope, and words that changed since the page", async () => {
    const person = await api.person();
    const { requestId } = await begun(shop, { scope: "data:read" });
    const refused = (choice: object) =>
      approve(person, requestId, choice).catch((error: { code?: string }) => error.code);
    expect(await refused({ scopes: ["data:share"] })).toBe("ceiling_exceeded");
    expect(await refused({ scopes: [] })).toBe("invalid_scopes");
    expect(await refused({ consentHash: "0".repeat(64) })).toBe("invalid_scopes");
  });

  test("refuses the publisher's own account, published or not", async () => {
    expect(await refusal(shop.owner, shop)).toBe("forbidden");
    const draft = await product({ isDraft: true });
    expect(await refusal(draft.owner, draft)).toBe("forbidden");
  });

  test("requires a member of the publisher of a draft, and allows at most five test customers", async () => {
    const draft = await product({ isDraft: true });
    expect(await refusal(await api.person(), draft)).toBe("forbidden");
    const members = [];
    for (let n = 0; n < 6; n += 1) members.push(await addMember(api, draft.owner.accountId, "auditor"));
    const [sixth, ...five] = members;
    for (const member of five) {
      expect(seen(await exchange(draft, await code(draft, member)))).toEqual(CONNECTED);
    }
    expect(await refusal(sixth!, draft)).toBe("forbidden");
    expect(await refusal(five[0]!, draft)).toBe("approved");
    expect(
      await api.db("connect_consents").whereIn("connection_id", customers(draft).select("connection_id")),
    ).toEqual(five.map(() => expect.objectContaining({ is_test: true })));
  });

  test("stores the code as a hash only, and no secret reaches a log line or a URL but the code", async () => {
    const person = await api.person();
    const decided = await code(shop, person);
    const rows = await api.db("connect_codes").where({ person_id: person.accountId });
    expect(JSON.stringify(rows)).not.toContain(decided.code);
    const { body } = await exchange(shop, decided);
    const lines = api.lines.join("\n");
    for (const secret of [decided.code, decided.verifier, shop.secret, String(body.access_token)]) {
      expect(lines).not.toContain(secret);
    }
    const [connection] = await customers(shop).where({ customer_account_id: person.accountId });
    expect(JSON.stringify(connection)).not.toContain(String(body.access_token).slice(13, 50));
  });

  test("leaves other platforms of the person alone", async () => {
    const person = await api.person();
    const own = await registerPlatform(person);
    await exchange(shop, await code(shop, person));
    const { body } = await person.client.get("/v1/service/platforms");
    expect((body.items as { platform_id: string }[]).map((each) => each.platform_id)).toEqual([
      own.platformId,
    ]);
  });
});
