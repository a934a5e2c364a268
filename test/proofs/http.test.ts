import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { setCredit } from "../support/account_rows.ts";
import type { HttpAnswer } from "../support/http.ts";
import { errorOf, proofApi } from "./application.ts";

const world = proofApi();
const { application } = world;

describe("POST /v1/service/verify after challenge and present", () => {
  test("allows a fresh proof of a granted scope, and its receipt's hash can be checked", async () => {
    const app = await application();
    const answer = await app.verify(await app.proof());
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      decision: "allow",
      decision_reason: "authorized",
      valid: true,
      identity_status: "authorized_agent",
      error_reason: null,
      agent_id: app.agentId,
      human_id: app.person.humanId,
      cert_id: app.certId,
      granted_scope: ["data:read", "payments:send"],
      replayed: false,
    });
    const receipt = canonicalJson(answer.body.receipt as never);
    expect(answer.body.receipt_hash).toBe(`sha256:${createHash("sha256").update(receipt).digest("hex")}`);
    expect(answer.body.receipt).toMatchObject({ decision: "allow", verified_at: answer.body.verified_at });
  });

  test("gives the specified answers for a spent proof, a scope that is not delegated, and a revoked certificate", async () => {
    const app = await application(["data:read"]);
    const [first, second, third] = [await app.proof(), await app.proof(), await app.proof()];
    expect((await app.verify(first)).body).toMatchObject({ decision: "allow" });
    expect(errorOf(await app.verify(first))).toBe("400 invalid_challenge");
    expect((await app.verify(second, { required_scope: "payments:send" })).body).toMatchObject({
      decision: "deny",
      decision_reason: "not_delegated",
      valid: false,
      identity_status: "scope_denied",
      granted_scope: [],
    });
    const revoke = await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {
      reason: "over",
    });
    expect(revoke.body).toEqual({ cert_id: app.certId, status: "revoked" });
    expect((await app.verify(third)).body).toMatchObject({
      decision: "deny",
      decision_reason: "delegation_revoked",
      identity_status: "revoked",
      error_reason: "delegation certificate has been revoked",
    });
    expect(errorOf(await app.present())).toBe("404 no_active_delegation");
    const { body } = await app.person.client.get("/v1/service/audit/personal?limit=25");
    const types = (body.events as { event_type: string; details: unknown }[]).map(
      (event) => event.event_type,
    );
    expect(types).toEqual([
      "proof.rejected",
      "proof.rejected",
      "proof.verified",
      "proof.presented",
      "proof.presented",
      "proof.presented",
    ]);
  });

  test("returns an indeterminate decision and valid false if the certificate's state is unknown", async () => {
    const app = await application();
    const proof = await app.proof();
    await world.api.db("certificates").where({ cert_id: app.certId }).delete();
    const answer = await app.verify(proof);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      decision: "indeterminate",
      decision_reason: "revocation_state_unavailable",
      valid: false,
      identity_status: "invalid",
      error_reason: "revocation_error: revocation state is not available",
      granted_scope: [],
    });
  });

  test("explains each rule as passed, failed or not reached", async () => {
    const app = await application();
    const allowed = await app.verify(await app.proof(), { explain: true });
    const outcomes = (answer: HttpAnswer) =>
      new Set((answer.body.checks as { outcome: string }[]).map((check) => check.outcome));
    expect(outcomes(allowed)).toEqual(new Set(["passed"]));
    const denied = await app.verify(await app.proof(), { explain: true, required_scope: "files:read" });
    expect(outcomes(denied)).toEqual(new Set(["passed", "failed", "not_reached"]));
    expect((await app.verify(await app.proof())).body.checks).toBeUndefined();
  });

  test("makes exactly one decision for 32 parallel calls with one challenge", async () => {
    const ROUNDS = 12;
    const app = await application();
    for (let round = 0; round < ROUNDS; round += 1) {
      const proof = await app.proof();
      const answers = await Promise.all(Array.from({ length: 32 }, () => app.verify(proof)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      expect(answers.filter((answer) => errorOf(answer) === "400 invalid_challenge")).toHaveLength(31);
    }
    const rows = await world.api
      .db("audit_events")
      .where({ account_id: app.person.accountId })
      .whereNotNull("decision");
    expect(rows).toHaveLength(ROUNDS);
    const balance = await world.api.db("balances").where({ account_id: app.person.accountId }).first();
    expect(balance?.balance_micro_usd).toBe(10_000_000 - ROUNDS * 2_000);
  }, 120_000);
});

describe("POST /v1/service/verify with explain", () => {
  const outcomeOf = (answer: HttpAnswer, name: string) =>
    (answer.body.checks as { name: string; outcome: string }[]).find((check) => check.name === name)?.outcome;

  test("names the rule that failed because of stored state, and reports no later rule as passed", async () => {
    const app = await application();
    const [first, second] = [await app.proof(), await app.proof()];
    const path = `/v1/service/platforms/${app.platform.platformId}`;
    await app.person.client.call("PATCH", path, { body: { default_allowed_scopes: ["payments:send"] } });
    const ceiling = await app.verify(first, { explain: true });
    expect(outcomeOf(ceiling, "required_scope")).toBe("passed");
    expect(outcomeOf(ceiling, "within_ceiling")).toBe("failed");
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    const revoked = await app.verify(second, { explain: true });
    expect(outcomeOf(revoked, "already_valid")).toBe("passed");
    expect(outcomeOf(revoked, "not_revoked")).toBe("failed");
    expect(outcomeOf(revoked, "required_scope")).toBe("not_reached");
    expect(outcomeOf(revoked, "challenge_signature")).toBe("passed");
  });
});

describe("POST /v1/service/challenge", () => {
  test("accepts an empty body, with or without a content type, and returns 32 bytes for 300 seconds", async () => {
    const app = await application([]);
    const plain = await app.post("/v1/service/challenge");
    expect(plain.status).toBe(200);
    expect(plain.body.ttl_seconds).toBe(300);
    expect(Buffer.from(String(plain.body.challenge), "base64")).toHaveLength(32);
    const client = world.api.client();
    const typed = await client.call("POST", "/v1/service/challenge", {
      headers: { "x-service-api-key": app.platform.apiKey, "content-type": "application/json" },
    });
    expect(typed.status).toBe(200);
  });

  test.each(["/v1/service/challenge", "/v1/service/verify"])(
    "answers 401 invalid_api_key without a valid key: %s",
    async (path) => {
      const client = world.api.client();
      expect(errorOf(await client.post(path, {}))).toBe("401 invalid_api_key");
      const headers = { "x-service-api-key": "dpz_AAAAAAAA_nonsense" };
      expect(errorOf(await client.post(path, {}, { headers }))).toBe("401 invalid_api_key");
    },
  );
});

describe("POST /v1/service/verify under limits", () => {
  test("answers 400 invalid_challenge at a wrong connection, and the proof stays valid at the connection that got the challenge", async () => {
    const [one, other] = [await application(), await application()];
    const proof = await one.proof();
    expect(errorOf(await other.verify(proof))).toBe("400 invalid_challenge");
    expect((await one.verify(proof)).body.decision).toBe("allow");
  });

  test("answers 400 session_context_mismatch if the call omits the session to which the proof is bound, and spends nothing", async () => {
    const app = await application();
    const { body } = await app.present({ session_context: Buffer.alloc(32, 7).toString("base64") });
    expect(errorOf(await app.verify(body.proof_bundle))).toBe("400 session_context_mismatch");
    expect(
      await world.api.db("audit_events").where({ account_id: app.person.accountId }).whereNotNull("decision"),
    ).toEqual([]);
  });

  test("makes 3 of 12 parallel decisions with credit for 3, and answers 402 credits_exhausted to the rest", async () => {
    const app = await application();
    await setCredit(world.api.db, app.person.accountId, 6_500);
    const proofs = await Promise.all(Array.from({ length: 12 }, () => app.proof()));
    const answers = await Promise.all(proofs.map((proof) => app.verify(proof)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter((answer) => errorOf(answer) === "402 credits_exhausted")).toHaveLength(9);
    const balance = await world.api.db("balances").where({ account_id: app.person.accountId }).first();
    expect(balance?.balance_micro_usd).toBe(500);
  });

  test("denies with ceiling_exceeded if the scope was removed from the platform's ceiling", async () => {
    const app = await application();
    const path = `/v1/service/platforms/${app.platform.platformId}`;
    const shrunk = await app.person.client.call("PATCH", path, {
      body: { default_allowed_scopes: ["payments:send"] },
    });
    expect(shrunk.status).toBe(200);
    expect((await app.verify(await app.proof())).body).toMatchObject({
      decision: "deny",
      decision_reason: "ceiling_exceeded",
      identity_status: "invalid",
    });
    expect(errorOf(await app.present({ required_scope: "data:read" }))).toBe("404 no_active_delegation");
    const allowed = await app.verify(await app.proof(), { required_scope: "payments:send" });
    expect(allowed.body).toMatchObject({
      granted_scope: ["payments:send"],
      receipt: { granted_scope: ["payments:send"] },
    });
    const receipt = canonicalJson(allowed.body.receipt as never);
    expect(allowed.body.receipt_hash).toBe(`sha256:${createHash("sha256").update(receipt).digest("hex")}`);
  });

  test("refuses U+0000 anywhere in the call", async () => {
    const app = await application();
    const proof = (await app.proof()) as { agent_id: string; delegations: Record<string, unknown>[] };
    expect(errorOf(await app.verify(proof, { required_scope: "custom:a\u0000b" }))).toBe(
      "400 invalid_request",
    );
    for (const member of ["cert_id", "issuer_id", "subject_id"]) {
      const forged = { ...proof, delegations: [{ ...proof.delegations[0], [member]: "a\u0000b" }] };
      expect(errorOf(await app.verify(forged))).toBe("400 invalid_request");
    }
    expect((await app.verify(proof)).body.decision).toBe("allow");
  });
});
