import { describe, expect, inject, test } from "vitest";
import { actor, must } from "./story.ts";
import { createVisitor, errorOf } from "./visitor.ts";

const settings = inject("settings");
const ada = actor("ada");

describe("5. Authentication", () => {
  test("1. account calls without a session fail with auth_required", async () => {
    const nobody = createVisitor(settings);
    for (const [method, path] of [
      ["GET", "/v1/service/audit/personal"],
      ["GET", "/v1/service/platforms"],
      ["POST", "/v1/service/delegations/self-request"],
    ] as const) {
      const answer = await nobody.call(method, path, method === "POST" ? { connection_id: "x" } : undefined);
      expect(errorOf(answer)).toBe("401 auth_required");
    }
  });

  test("2. state-changing account calls need the CSRF cookie's value in X-Service-CSRF", async () => {
    const path = "/v1/service/delegations/self-request";
    const body = { connection_id: ada.connectionId, agent_id: await ada.createAgent() };
    for (const value of ["", "wrong"]) {
      expect(errorOf(await ada.person.call("POST", path, body, { "x-service-csrf": value }))).toBe(
        "403 csrf_failed",
      );
    }
    expect((await ada.person.call("POST", path, body)).status).toBe(201);
  });

  test.each([
    ["POST", "/v1/service/challenge"],
    ["POST", "/v1/service/verify"],
    ["POST", `/v1/service/connections/${ada.connectionId}/agents`],
    ["POST", `/v1/service/connections/${ada.connectionId}/agents/${"0".repeat(32)}/present`],
  ])(
    "3. %s %s requires the API key, and returns 401 for a missing, wrong or changed key",
    async (method, path) => {
      const key = String(ada.platform.api_key);
      const changed = `${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`;
      for (const presented of ["", "nonsense", changed, key.slice(0, -1), `${key}x`]) {
        const visitor = createVisitor(settings, {}, { "x-service-api-key": presented });
        expect(errorOf(await visitor.call(method, path, {}))).toBe("401 invalid_api_key");
      }
    },
  );

  test("3. a rotated API key stops working immediately if no grace period is set", async () => {
    const grace = actor("grace");
    const path = `/v1/service/connections/${grace.connectionId}/rotate-key`;
    const rotated = must(await grace.person.call("POST", path, {}));
    expect(rotated).toMatchObject({
      api_key: expect.any(String),
      previous_prefix: grace.platform.api_key_prefix,
    });
    const challengeWith = (key: unknown) =>
      createVisitor(settings, {}, { "x-service-api-key": String(key) }).call("POST", "/v1/service/challenge");
    expect(errorOf(await challengeWith(grace.platform.api_key))).toBe("401 invalid_api_key");
    expect((await challengeWith(rotated.api_key)).status).toBe(200);
  });
});
