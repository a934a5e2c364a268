import { describe, expect, test } from "vitest";
import { actor, CEILING, must } from "./story.ts";
import { errorOf } from "./visitor.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
const ada = actor("ada");

describe("2. Resources: scopes", () => {
  test.each(["unknown:scope", "custom:", "CUSTOM:a:b", "x-acme:do", "urn:a", ""])(
    "%j is rejected with invalid_scopes, and nothing is registered",
    async (scope) => {
      const answer = await ada.person.call("POST", "/v1/service/platforms/personal", {
        name: "Bad",
        surface_type: "agentic_api",
        default_allowed_scopes: ["data:read", scope],
      });
      expect(errorOf(answer)).toMatch(/^400 invalid_(scopes|request)$/);
      if (scope !== "") expect(errorOf(answer)).toBe("400 invalid_scopes");
    },
  );
});

describe("2. Resources: platform", () => {
  test("has every field of the table at the top level, its secrets, and publish_state draft", () => {
    expect(ada.platform).toMatchObject({
      api_key: expect.stringMatching(/^\S{20,}$/),
      api_key_prefix: expect.any(String),
      connection_id: expect.stringMatching(UUID),
      description: "",
      expires_at: expect.stringMatching(ISO),
      name: "Shop",
      platform_id: expect.stringMatching(UUID),
      publish_state: "draft",
      signing_secret: expect.any(String),
      surface_type: "agentic_api",
      webhook_signing_secret: expect.any(String),
    });
    expect(String(ada.platform.api_key)).toContain(String(ada.platform.api_key_prefix));
  });

  test("shows its secrets once, and no later response contains them", async () => {
    const list = await ada.person.call("GET", "/v1/service/platforms");
    const one = await ada.person.call("GET", `/v1/service/platforms/${String(ada.platform.platform_id)}`);
    for (const { text } of [list, one]) {
      for (const secret of ["api_key", "signing_secret", "webhook_signing_secret"]) {
        expect(text).not.toContain(String(ada.platform[secret]));
      }
    }
  });
});

describe("2. Resources: agent", () => {
  test("has agent_id, name, agent_type, custody_mode and public_key_json at the top level", async () => {
    const path = `/v1/service/connections/${ada.connectionId}/agents`;
    const { status, body } = await ada.application.call("POST", path, {
      name: "bot",
      agent_type: "api_agent",
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      agent_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      name: "bot",
      agent_type: "api_agent",
      custody_mode: "custodial",
      public_key_json: { ed25519: expect.any(String), ml_dsa_65: expect.any(String) },
    });
  });
});

describe("2. Resources: delegation certificate", () => {
  test("has an ID of the form cert-<uuid>, the approved scope, and expires_at null if it does not expire", async () => {
    const certificate = await ada.delegate(await ada.createAgent(), ["data:read"]);
    expect(certificate).toEqual({
      approved_scope: ["data:read"],
      cert_id: expect.stringMatching(/^cert-[0-9a-f-]{36}$/),
      expires_at: null,
      issued_at: expect.stringMatching(/Z$/),
      status: "approved",
    });
  });

  test("a request without scopes asks for the full ceiling", async () => {
    const agent_id = await ada.createAgent();
    const asked = await ada.person.call("POST", "/v1/service/delegations/self-request", {
      connection_id: ada.connectionId,
      agent_id,
    });
    expect(must(asked)).toMatchObject({ request_id: expect.any(String), requested_scope: CEILING });
  });
});

describe("2. Resources: challenge, proof bundle, decision, audit event", () => {
  test("a challenge is a new string each time", async () => {
    const challenges = await Promise.all(Array.from({ length: 20 }, () => ada.challenge()));
    expect(new Set(challenges).size).toBe(20);
  });

  test("a proof bundle can be sent in the header X-Service-Proof", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    const { proof_ref } = must(await ada.present(agentId));
    const body = { required_scope: "data:read" };
    const headers = { "x-service-proof": String(proof_ref) };
    const answer = await ada.application.call("POST", "/v1/service/verify", body, headers);
    expect(must(answer)).toMatchObject({ decision: "allow", decision_reason: "authorized" });
  });

  test("audit events of decisions contain decision and reason, and audit events of present calls contain neither", async () => {
    const agentId = await ada.createAgent();
    await ada.delegate(agentId, ["data:read"]);
    must(await ada.verify(await ada.proof(agentId), "data:read"));
    must(await ada.verify(await ada.proof(agentId), "data:share"));
    const { events } = must(await ada.person.call("GET", "/v1/service/audit/personal?limit=4"));
    expect(events).toMatchObject([
      { event_type: "proof.rejected", details: { decision: "deny", decision_reason: "not_delegated" } },
      { event_type: "proof.presented" },
      { event_type: "proof.verified", details: { decision: "allow", decision_reason: "authorized" } },
      { event_type: "proof.presented" },
    ]);
    const presented = (events as { details: object }[])[1]?.details ?? {};
    expect(Object.keys(presented).filter((name) => name.startsWith("decision"))).toEqual([]);
  });
});
