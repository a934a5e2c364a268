import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { echoRoute } from "./support/sample_routes.ts";
import { contract } from "./walk/documented.ts";

const KEY = 'ApiKey realm="acme", header="X-Acme-API-Key"';
const SESSION = 'Cookie realm="acme", cookie-name="acme_session"';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    config: { SERVICE_WORD: "acme" },
    routes: (["session", "api_key", "account", "operator"] as const).map((access) =>
      echoRoute({ id: access, access, method: "GET", path: `/v1/service/${access}` }),
    ),
  });
});
afterAll(() => api.stop());

describe("a 401 response", () => {
  test.each([
    ["session", {}, "auth_required", SESSION],
    ["api_key", {}, "invalid_api_key", KEY],
    ["api_key", { "x-acme-api-key": "none" }, "invalid_api_key", KEY],
    ["account", {}, "auth_required", `${KEY}, ${SESSION}`],
    ["account", { "x-acme-api-key": "none" }, "invalid_api_key", `${KEY}, ${SESSION}`],
    ["operator", {}, "operator_unauthorized", 'Bearer realm="acme"'],
    ["operator", { authorization: "Bearer none" }, "operator_unauthorized", 'Bearer realm="acme"'],
  ])(
    "names the accepted credentials for %s, without a scheme that makes a browser ask for a password",
    async (access, headers, code, challenges) => {
      const client = access === "operator" ? api.operatorClient() : api.client();
      const answer = await client.get(`/v1/acme/${access}`, { headers: headers as Record<string, string> });
      expect(answer).toMatchObject({ status: 401, body: { error: { code } } });
      expect(answer.headers.get("www-authenticate")).toBe(challenges);
      expect(challenges).not.toMatch(/basic|digest|ntlm|negotiate/i);
    },
  );

  test("to a call that refreshes a session asks for the refresh cookie", async () => {
    const answer = await api.client().post("/v1/auth/refresh");
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe('Cookie realm="acme", cookie-name="acme_refresh"');
  });

  test("has a WWW-Authenticate header, unlike every other response", async () => {
    for (const path of ["/v1/acme/none", "/openapi.json"]) {
      expect((await api.client().get(path)).headers.get("www-authenticate")).toBeNull();
    }
  });

  test("appears with its header in the document of every operation that can return it", () => {
    const guarded = contract.operations.filter(({ responses }) => responses[401] !== undefined);
    expect(guarded.length).toBeGreaterThan(20);
    for (const { operationId, responses } of guarded) {
      expect([operationId, Object.keys(responses[401]?.headers ?? {})]).toEqual([
        operationId,
        expect.arrayContaining(["WWW-Authenticate"]),
      ]);
    }
  });
});
