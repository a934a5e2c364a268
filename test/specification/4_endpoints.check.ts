import { randomUUID } from "node:crypto";
import { describe, expect, inject, test } from "vitest";
import { actor, CEILING, must } from "./story.ts";
import { createVisitor, errorOf } from "./visitor.ts";

const ada = actor("ada");

describe("4. Endpoints: account", () => {
  const visitor = createVisitor(inject("settings"));
  const email = `alan-${randomUUID()}@example.test`;

  test("POST /v1/auth/email/send-code returns code_sent and whether the code was resent", async () => {
    const send = () => visitor.call("POST", "/v1/auth/email/send-code", { email });
    expect(must(await send())).toEqual({ status: "code_sent", resent: false });
    expect(must(await send())).toEqual({ status: "code_sent", resent: true });
  });

  test("POST /v1/auth/email/verify-code accepts the 6-digit code and sets session and CSRF cookies, with no token in the body", async () => {
    const code = await visitor.codeFor(email);
    expect(code).toMatch(/^\d{6}$/);
    const wrong = code === "000000" ? "000001" : "000000";
    expect(errorOf(await visitor.call("POST", "/v1/auth/email/verify-code", { email, code: wrong }))).toBe(
      "400 invalid_code",
    );
    const answer = await visitor.call("POST", "/v1/auth/email/verify-code", { email, code });
    expect(must(answer)).toMatchObject({ email, onboarding_step: "profile" });
    const cookies = answer.headers.getSetCookie();
    const { word } = inject("settings");
    for (const name of ["session", "refresh", "csrf"]) {
      const cookie = cookies.find((each) => each.startsWith(`${word}_${name}=`)) ?? "";
      expect([name, /HttpOnly/i.test(cookie)]).toEqual([name, name !== "csrf"]);
      expect(answer.text).not.toContain(/=([^;]*)/.exec(cookie)?.[1] ?? "?");
    }
    expect(errorOf(await visitor.call("POST", "/v1/auth/email/verify-code", { email, code }))).toBe(
      "400 invalid_code",
    );
  });

  test("registering a platform before onboarding is complete fails with 403 onboarding_incomplete", async () => {
    const answer = await visitor.call("POST", "/v1/service/platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: CEILING,
    });
    expect(errorOf(answer)).toBe("403 onboarding_incomplete");
  });

  test("POST /v1/auth/onboarding/profile accepts first_name and last_name", async () => {
    const missing = await visitor.call("POST", "/v1/auth/onboarding/profile", { first_name: "Alan" });
    expect(errorOf(missing)).toBe("400 invalid_request");
    const profile = { first_name: "Alan", last_name: "Turing" };
    expect(must(await visitor.call("POST", "/v1/auth/onboarding/profile", profile))).toEqual({
      onboarding_step: "account_type",
    });
    expect(errorOf(await visitor.call("POST", "/v1/auth/onboarding/profile", profile))).toBe(
      "409 onboarding_step",
    );
  });

  test("POST /v1/auth/onboarding/account-type with individual completes the onboarding, with credits and a root identity", async () => {
    const answer = await visitor.call("POST", "/v1/auth/onboarding/account-type", {
      account_type: "individual",
    });
    const body = must(answer);
    expect(body).toMatchObject({ onboarding_step: "complete", account_type: "individual" });
    expect(Number(body.credits)).toBeGreaterThan(0);
    const root = await visitor.call("GET", `/v1/registry/principals/${String(body.human_id)}`);
    expect(must(root)).toMatchObject({
      human_id: body.human_id,
      public_key: { ed25519: expect.any(String) },
    });
  });

  test("POST /v1/auth/refresh needs no body and sets new cookies, and the old CSRF value is no longer valid", async () => {
    const { word } = inject("settings");
    const before = visitor.state()[`${word}_csrf`] ?? "";
    expect((await visitor.call("POST", "/v1/auth/refresh")).status).toBe(200);
    expect(visitor.state()[`${word}_csrf`]).not.toBe(before);
    const platform = { name: "S", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
    const stale = { "x-service-csrf": before };
    const answer = await visitor.call("POST", "/v1/service/platforms/personal", platform, stale);
    expect(errorOf(answer)).toBe("403 csrf_failed");
    expect((await visitor.call("POST", "/v1/service/platforms/personal", platform)).status).toBe(201);
  });

  test("signing out ends the session", async () => {
    expect((await visitor.call("POST", "/v1/auth/logout")).status).toBe(200);
    expect(errorOf(await visitor.call("GET", "/v1/auth/session"))).toBe("401 auth_required");
  });
});

describe("4. Endpoints: platform and agents", () => {
  test("POST /v1/service/platforms/personal rejects a surface type that is not available", async () => {
    const wish = { name: "X", surface_type: "meetings", default_allowed_scopes: ["data:read"] };
    const answer = await ada.person.call("POST", "/v1/service/platforms/personal", wish);
    expect(errorOf(answer)).toBe("400 surface_not_available");
  });

  test("POST /v1/service/connections/<connection_id>/agents rejects an unknown agent_type", async () => {
    const path = `/v1/service/connections/${ada.connectionId}/agents`;
    const answer = await ada.application.call("POST", path, { name: "x", agent_type: "toaster" });
    expect(errorOf(answer)).toBe("400 invalid_request");
  });

  test("publishing, team members and the publisher's domain need an organization", async () => {
    const { platform_id } = inject("ada").platform;
    const organization = "/v1/service/organization";
    const calls: [path: string, body?: object][] = [
      [`/v1/service/platforms/${String(platform_id)}/publish`],
      [`${organization}/members`, { email: "b@example.test", role: "approver" }],
      [`${organization}/domains`, { domain: "shop.example.com" }],
    ];
    for (const [path, body] of calls) {
      expect(errorOf(await ada.person.call("POST", path, body))).toBe("403 not_available");
    }
  });

  test("a call that names a different account's connection returns 404", async () => {
    const path = `/v1/service/connections/${actor("grace").connectionId}/agents`;
    const answer = await ada.application.call("POST", path, { name: "x", agent_type: "api_agent" });
    expect(errorOf(answer)).toBe("404 not_found");
  });
});

describe("4. Endpoints: delegation", () => {
  async function requested() {
    const agent_id = await ada.createAgent();
    const path = "/v1/service/delegations/self-request";
    const { request_id } = must(
      await ada.person.call("POST", path, { connection_id: ada.connectionId, agent_id }),
    );
    const on = (action: string, body: object) =>
      ada.person.call("POST", `/v1/service/delegations/requests/${String(request_id)}/${action}`, body);
    return { request_id, on };
  }

  test("approving no scope, or more than requested, returns 400, and the request stays pending", async () => {
    const { on } = await requested();
    for (const approved_scope of [[], ["data:write"], ["data:read", "payments:receive"]]) {
      expect(errorOf(await on("approve", { approved_scope }))).toBe("400 scope_not_requested");
    }
    expect((await on("approve", { approved_scope: ["data:read"] })).status).toBe(200);
  });

  test("a denied request can no longer be approved", async () => {
    const { request_id, on } = await requested();
    expect(must(await on("deny", { reason: "no" }))).toEqual({ request_id, status: "denied" });
    expect(errorOf(await on("approve", { approved_scope: ["data:read"] }))).toBe("409 request_not_pending");
  });

  test("calls that name a different account's request or certificate return 404", async () => {
    const { request_id } = await requested();
    const { cert_id } = await ada.delegate(await ada.createAgent(), ["data:read"]);
    const grace = actor("grace").person;
    for (const [path, body] of [
      [`requests/${String(request_id)}/approve`, { approved_scope: ["data:read"] }],
      [`${String(cert_id)}/revoke`, {}],
    ] as const) {
      expect(errorOf(await grace.call("POST", `/v1/service/delegations/${path}`, body))).toBe(
        "404 not_found",
      );
    }
  });
});

describe("4. Endpoints: proofs", () => {
  test("challenge, present and verify work together", async () => {
    const agentId = await ada.createAgent();
    const { cert_id } = await ada.delegate(agentId, ["data:read"]);
    const body = must(await ada.verify(await ada.proof(agentId), "data:read"));
    expect(body).toMatchObject({
      decision: "allow",
      decision_reason: "authorized",
      agent_id: agentId,
      human_id: ada.humanId,
      cert_id,
      granted_scope: ["data:read"],
      valid: true,
      identity_status: "authorized_agent",
      replayed: false,
    });
    const { receipt_id } = body.receipt as { receipt_id: string };
    const receipt = await ada.application.call("GET", `/v1/service/receipts/${receipt_id}`);
    expect(must(receipt)).toMatchObject({ receipt: body.receipt, receipt_hash: body.receipt_hash });
  });

  test("challenge needs no body and accepts an empty JSON object", async () => {
    const headers = { "content-type": "application/json" };
    expect(
      must(await ada.application.call("POST", "/v1/service/challenge", undefined, headers)),
    ).toMatchObject({
      challenge: expect.any(String),
      ttl_seconds: 300,
    });
  });
});

describe("4. Endpoints: audit", () => {
  test("GET /v1/service/audit/personal is sorted newest first, limited and paged", async () => {
    const page = must(await ada.person.call("GET", "/v1/service/audit/personal?limit=25"));
    const times = (page.events as { occurred_at: string }[]).map(({ occurred_at }) => occurred_at);
    expect(times.length).toBeGreaterThan(0);
    expect(times.length).toBeLessThanOrEqual(25);
    expect([...times].sort().reverse()).toEqual(times);
    const first = must(await ada.person.call("GET", "/v1/service/audit/personal?limit=1"));
    const second = must(
      await ada.person.call("GET", `/v1/service/audit/personal?limit=1&cursor=${String(first.next_cursor)}`),
    );
    const ids = [first, second].flatMap(({ events }) =>
      (events as { event_id: string }[]).map((e) => e.event_id),
    );
    expect(new Set(ids).size).toBe(2);
    for (const limit of ["0", "101", "x"]) {
      const answer = await ada.person.call("GET", `/v1/service/audit/personal?limit=${limit}`);
      expect(errorOf(answer)).toBe("400 invalid_request");
    }
  });

  test("an account sees only its own events", async () => {
    const { events } = must(await actor("grace").person.call("GET", "/v1/service/audit/personal?limit=100"));
    const connections = (events as { connection_id: string }[]).map(({ connection_id }) => connection_id);
    expect(connections).not.toContain(ada.connectionId);
  });
});
