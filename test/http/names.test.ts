import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createNames } from "../../src/input/names.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { createClient } from "../support/http.ts";
import { echoRoute } from "./support/sample_routes.ts";

describe("createNames", () => {
  const names = createNames("service", ["ratify", "ratify", "service"]);

  test("returns a path once with the service name and once with each alias", () => {
    expect(names.paths("/v1/service/verify")).toEqual(["/v1/service/verify", "/v1/ratify/verify"]);
    expect(names.paths("/v1/service")).toEqual(["/v1/service", "/v1/ratify"]);
  });

  test("leaves a path without the service name unchanged", () => {
    expect(names.paths("/v1/auth/service-account")).toEqual(["/v1/auth/service-account"]);
    expect(names.paths("/v1/myservice/x")).toEqual(["/v1/myservice/x"]);
  });

  test("returns a header's name with the service name and with each alias", () => {
    expect(names.headers("x-service-api-key")).toEqual(["x-service-api-key", "x-ratify-api-key"]);
    expect(names.headers("x-request-id")).toEqual(["x-request-id"]);
  });

  test("uses only the service name in cookie names", () => {
    expect(names.cookie("csrf")).toBe("service_csrf");
    expect(createNames("acme", ["service"]).cookie("csrf")).toBe("acme_csrf");
  });
});

describe("a service with a configured service name and an alias", () => {
  const caller = {
    accountId: "a",
    principalAccountId: "a",
    isCustomer: false,
    connectionId: "c",
    keyPrefix: "k",
    verifierId: "v",
    registryAnswers: false,
    role: "full" as const,
    agentId: null,
    explanationValues: "full" as const,
  };
  let api: TestApi;
  beforeAll(async () => {
    api = await startApi({
      config: { SERVICE_WORD: "acme", SERVICE_WORD_ALIASES: ["ratify"] },
      authenticators: { findApiKey: async (presented) => (presented === "known" ? caller : undefined) },
      routes: [
        echoRoute({ id: "keyed", access: "api_key" }),
        echoRoute({ id: "keyed_thing", access: "api_key", path: "/v1/service/things/{id}" }),
        echoRoute({ id: "changing", access: "session", onboarding: "any", path: "/v1/service/changing" }),
      ],
    });
  });
  afterAll(() => api.stop());

  test.each(["acme", "ratify"])("accepts the name %s in paths and headers", async (word) => {
    for (const path of ["echo", "things/7"]) {
      for (const header of ["x-acme-api-key", "x-ratify-api-key"]) {
        const answer = await api
          .client()
          .post(`/v1/${word}/${path}`, undefined, { headers: { [header]: "known" } });
        expect(answer).toMatchObject({ status: 200, body: { caller } });
      }
    }
  });

  test("refuses a header with two values under two names, because one value may come from the client", async () => {
    const send = (ratify: string) =>
      api.client().post("/v1/acme/echo", undefined, {
        headers: { "x-acme-api-key": "known", "x-ratify-api-key": ratify },
      });
    expect(await send("known")).toMatchObject({ status: 200, body: { caller } });
    for (const other of ["other", ""]) {
      expect(await send(other)).toMatchObject({ status: 400, body: { error: { code: "invalid_request" } } });
    }
  });

  test("does not accept the default service name, which is not configured", async () => {
    const headers = { "x-acme-api-key": "known" };
    expect((await api.client().post("/v1/service/echo", undefined, { headers })).status).toBe(404);
    const answer = await api
      .client()
      .post("/v1/acme/echo", undefined, { headers: { "x-service-api-key": "known" } });
    expect(answer).toMatchObject({ status: 401, body: { error: { code: "invalid_api_key" } } });
  });

  test("uses the service name in its cookies, and accepts the CSRF header with the service name and with the alias", async () => {
    const client = createClient(api.url, "acme");
    await client.signIn("ada@example.com");
    const token = client.cookie("acme_csrf") ?? "";
    for (const header of ["x-acme-csrf", "x-ratify-csrf"]) {
      const answer = await client.post("/v1/ratify/changing", undefined, {
        csrf: false,
        headers: { [header]: token },
      });
      expect(answer.status).toBe(200);
    }
    const answer = await client.post("/v1/acme/changing", undefined, {
      csrf: false,
      headers: { "x-service-csrf": token },
    });
    expect(answer).toMatchObject({ status: 403, body: { error: { code: "csrf_failed" } } });
  });
});
