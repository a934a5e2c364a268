import { describe, expect, test } from "vitest";
import { hashChallenge, openRequest } from "../../src/connect/connect_request.ts";
import { wayBack } from "../../src/console/core/places.ts";
import { newId } from "../../src/ids.ts";
import { runningApi } from "../support/api.ts";
import { errorCode } from "../support/platform_world.ts";
import { connectScene, ISSUER } from "./scene.ts";

const api = runningApi();
const { product, parameters, verifierOf, authorize, locationOf, requestIdOf, post, begun } =
  connectScene(api);

const opened = (signed: string) => openRequest(api, signed, "connect_request");
const backWith = (location: string) => Object.fromEntries(new URL(location).searchParams);

describe("an authorization request", () => {
  test("leads a browser without a session to the page, with what the product asked", async () => {
    const shop = await product();
    const verifier = verifierOf();
    const answer = await authorize({ ...parameters(shop, verifier), scope: "data:read", nonce: "ignored" });
    expect([answer.status, answer.text]).toEqual([303, ""]);
    expect(locationOf(answer)).toMatch(new RegExp(`^${ISSUER}/console/connect/[\\w-]+\\.[0-9a-f]{32}$`));
    expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
    expect(opened(requestIdOf(answer))).toEqual({
      id: expect.any(String),
      platformId: shop.platformId,
      redirectUri: shop.redirect,
      scopes: ["data:read"],
      state: "xyz",
      challenge: hashChallenge(parameters(shop, verifier).code_challenge),
      accountLabel: null,
      until: api.clock.now().getTime() + 3_600_000,
    });
  });

  test("asks for the whole ceiling without a scope, and ignores a label that was not pushed", async () => {
    const { requestId } = await begun(await product(), { account_label: "Your bank" });
    expect(opened(requestId)).toMatchObject({ scopes: null, accountLabel: null });
  });

  test("remains valid for an hour, and stores no row", async () => {
    const { requestId } = await begun(await product());
    expect(await api.db("connect_codes").select()).toEqual([]);
    api.clock.advance(3_599.999);
    expect(opened(requestId)).toBeDefined();
    api.clock.advance(0.001);
    expect(opened(requestId)).toBeUndefined();
  });

  test("cannot be changed by the browser, or be taken from a pushed request", async () => {
    const shop = await product();
    const { requestId } = await begun(shop);
    const [body = "", mac = ""] = requestId.split(".");
    const changed = {
      ...JSON.parse(Buffer.from(body, "base64url").toString()),
      redirectUri: "https://evil.example/",
    };
    const forged = Buffer.from(JSON.stringify(changed)).toString("base64url");
    for (const signed of [`${forged}.${mac}`, `${body}.${mac}0`, `${body}.`, body, "", `${requestId}.x`]) {
      expect(opened(signed)).toBeUndefined();
    }
    expect(openRequest(api, requestId, "pushed_request")).toBeUndefined();
  });

  test("with an unknown client or a similar redirect URI is an error answer, never a redirect", async () => {
    const shop = await product();
    const good = parameters(shop, verifierOf());
    const refused = async (more: object) => {
      const answer = await authorize({ ...good, ...more });
      return [answer.headers.get("location"), answer.status, errorCode(answer)];
    };
    for (const client_id of [newId(), "shop", ""]) {
      expect(await refused({ client_id })).toEqual([null, 404, "not_found"]);
    }
    const similar = [
      ...["", `${shop.redirect}/`, `${shop.redirect}?x=1`, `${shop.redirect}#`, shop.redirect.toUpperCase()],
      ...[shop.redirect.replace("https", "http"), shop.redirect.replace("/connected", ":443/connected")],
      ...[
        shop.redirect.replace("https://", "https://evil.example\\@"),
        `https://www.${shop.domain}/connected`,
      ],
      ...[
        "https://evil.example/connected",
        "javascript:alert(1)",
        `${shop.redirect}/../x`,
        ` ${shop.redirect}`,
      ],
    ];
    for (const redirect_uri of similar) {
      expect(await refused({ redirect_uri, scope: "wrong" }), redirect_uri).toEqual([
        ...[null, 400, "invalid_redirect_uri"],
      ]);
    }
  });

  test.each([
    ["not_found", { client_id: newId() }, "does not know the product"],
    ["invalid_redirect_uri", { redirect_uri: "https://evil.example/connected" }, "where you return to"],
  ])("with %s leads a browser to a page of this service about it", async (reason, wrong, words) => {
    const query = new URLSearchParams({ ...parameters(await product(), verifierOf()), ...wrong });
    const headers = { accept: "text/html,application/xhtml+xml" };
    const sent = await api.client().call("GET", `/v1/service/oauth/authorize?${query}`, { headers });
    const location = new URL(sent.headers.get("location") ?? "");
    expect([sent.status, location.origin, location.search]).toEqual([303, ISSUER, `?reason=${reason}`]);
    const page = await api.client().get(`${location.pathname}${location.search}`);
    expect([page.status, page.text]).toEqual([200, expect.stringContaining(words)]);
    expect(page.text).not.toContain("evil.example");
  });

  test.each([
    [{ response_type: "token" }, "unsupported_response_type"],
    [{ response_mode: "fragment" }, "invalid_request"],
    [{ code_challenge: "short" }, "invalid_request"],
    [{ code_challenge_method: "plain" }, "invalid_request"],
    [{ scope: "data:write" }, "invalid_scope"],
    [{ scope: "everything" }, "invalid_scope"],
    [{ scope: "data:read  data:share" }, "invalid_scope"],
    [{ scope: "data:read ".repeat(300) }, "invalid_scope"],
    [{ request: "e30.e30." }, "request_not_supported"],
  ])("with %j returns to the product with %s, the state and the issuer", async (wrong, error) => {
    const shop = await product({ path: "/connected?from=deputize" });
    const answer = await authorize({ ...parameters(shop, verifierOf()), ...wrong });
    expect(answer.status).toBe(303);
    expect(locationOf(answer).startsWith(`${shop.redirect}&error=${error}&`)).toBe(true);
    expect(backWith(locationOf(answer))).toMatchObject({ state: "xyz", iss: ISSUER, from: "deputize" });
  });

  test("returns an error if its texts would be lost while the person signs in", async () => {
    const shop = await product();
    const scopes = Array.from({ length: 100 }, (_, n) => `custom:shop:${String(n).padStart(7, "0")}`);
    await api
      .db("platforms")
      .where({ platform_id: shop.platformId })
      .update({ default_allowed_scopes: scopes });
    const push = (state: string) =>
      post("par", {
        ...parameters(shop, verifierOf()),
        client_secret: shop.secret,
        ...{ scope: scopes.join(" "), account_label: "日".repeat(120), state },
      });
    const long = await push('"'.repeat(1_024));
    expect([long.status, long.body.error]).toEqual([400, "invalid_request"]);
    const { body } = await push("s".repeat(1_024));
    const page = await authorize({ client_id: shop.platformId, request_uri: String(body.request_uri) });
    const path = `/console/for/${newId()}/connect/${requestIdOf(page)}`;
    expect([path.length > 5_000, wayBack(path)]).toEqual([true, path]);
  });

  test("with a state that cannot be sent back returns without it", async () => {
    const shop = await product();
    for (const state of ["a\nb", "ö", "x".repeat(1_025)]) {
      const back = backWith(locationOf(await authorize({ ...parameters(shop, verifierOf()), state })));
      expect(back).toEqual({ error: "invalid_request", error_description: expect.any(String), iss: ISSUER });
    }
  });

  test("never redirects errors of a draft to an https address, because anybody can register one", async () => {
    const draft = await product({ isDraft: true });
    const answer = await authorize({ ...parameters(draft, verifierOf()), scope: "wrong" });
    expect([answer.status, errorCode(answer), answer.headers.get("location")]).toEqual([
      ...[400, "invalid_request", null],
    ]);
    expect((await begun(draft)).requestId).not.toBe("");
  });

  test("becomes an error answer if the platform is suspended or removed", async () => {
    const shop = await product();
    const asked = parameters(shop, verifierOf());
    await shop.owner.client.call("DELETE", `/v1/service/organization/domains/${shop.domain}`);
    expect(errorCode(await authorize(asked))).toBe("invalid_redirect_uri");
    await shop.owner.client.call("DELETE", `/v1/service/connections/${shop.connectionId}`);
    expect(errorCode(await authorize(asked))).toBe("not_found");
  });
});

describe("a pushed request", () => {
  const pushed = async (shop: Awaited<ReturnType<typeof product>>, more: Record<string, string> = {}) =>
    post("par", { ...parameters(shop, verifierOf()), client_secret: shop.secret, ...more });

  test("leads to the page with the product's name for its own account", async () => {
    const shop = await product();
    const answer = await pushed(shop, { account_label: " Ada's shop ", scope: "data:share" });
    expect([answer.status, answer.body]).toEqual([
      201,
      { request_uri: expect.stringMatching(/^urn:ietf:params:oauth:request_uri:/), expires_in: 300 },
    ]);
    const request_uri = String(answer.body.request_uri);
    const page = await authorize({ client_id: shop.platformId, request_uri, scope: "data:read" });
    expect(opened(requestIdOf(page))).toMatchObject({
      accountLabel: "Ada's shop",
      scopes: ["data:share"],
      redirectUri: shop.redirect,
      state: "xyz",
    });
  });

  test("works for its own client only, and for five minutes", async () => {
    const shop = await product();
    const other = await product();
    const request_uri = String((await pushed(shop)).body.request_uri);
    const refused = async (client_id: string, uri = request_uri) =>
      errorCode(await authorize({ client_id, request_uri: uri, redirect_uri: other.redirect }));
    expect(await refused(other.platformId)).toBe("invalid_request");
    expect(await refused(shop.platformId, `${request_uri}0`)).toBe("invalid_request");
    expect(await refused(shop.platformId, (await begun(shop)).requestId)).toBe("invalid_request");
    api.clock.advance(300);
    expect(await refused(shop.platformId)).toBe("invalid_request");
  });

  test.each([
    [{ client_secret: "dps_wrong" }, 401, "invalid_client"],
    [{ redirect_uri: "https://evil.example/" }, 400, "invalid_request"],
    [{ request_uri: "urn:ietf:params:oauth:request_uri:x" }, 400, "invalid_request"],
    [{ account_label: "two\nlines" }, 400, "invalid_request"],
    [{ account_label: "hidden\u200b\u202etext" }, 400, "invalid_request"],
    [{ scope: "data:write" }, 400, "invalid_scope"],
  ])("with %j is refused in the form of OAuth", async (wrong, status, error) => {
    const answer = await pushed(await product(), wrong);
    expect([answer.status, answer.body]).toEqual([status, { error, error_description: expect.any(String) }]);
  });
});

test("the metadata names the endpoints, S256, and the issuer in redirects", async () => {
  const { status, body } = await api.client().get("/.well-known/oauth-authorization-server");
  const at = `${ISSUER}/v1/service/oauth`;
  expect([status, body]).toEqual([
    200,
    {
      issuer: ISSUER,
      authorization_endpoint: `${at}/authorize`,
      token_endpoint: `${at}/token`,
      pushed_authorization_request_endpoint: `${at}/par`,
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: ["authorization_code"],
      token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
    },
  ]);
});
