import { createHash } from "node:crypto";
import type { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openPool } from "../../src/db/connection.ts";
import { PATIENT_LOCK_MS, QUICK_LOCK_MS } from "../../src/proofs/lanes.ts";
import { proofRoutes } from "../../src/proofs/routes.ts";
import { canonicalJson } from "../../src/protocol/canonical.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import type { HttpAnswer, HttpClient } from "../support/http.ts";
import {
  createAgent,
  type Person,
  type PlatformApi,
  registerPlatform,
  selfRequest,
  startPlatformApi,
  type TestPlatform,
} from "../support/platform_world.ts";

let api: PlatformApi;
let pools: Pool[];

type Application = {
  person: Person;
  platform: TestPlatform;
  agentId: string;
  certId: string;
  post(path: string, body?: unknown): Promise<HttpAnswer>;
  present(fields?: Record<string, unknown>): Promise<HttpAnswer>;
  proof(): Promise<unknown>;
  verify(proof: unknown, fields?: Record<string, unknown>): Promise<HttpAnswer>;
};

beforeAll(async () => {
  api = await startPlatformApi({
    routes: (parts) => {
      const open = (name: string, lockMs: number) =>
        openPool({ url: parts.databaseUrl, name, lockMs, onError: () => {} });
      pools = [
        open("decisions", QUICK_LOCK_MS),
        open("patient", PATIENT_LOCK_MS),
        open("rates", PATIENT_LOCK_MS),
      ];
      const [decisions, patient, rated] = pools as [Pool, Pool, Pool];
      return proofRoutes({ ...parts, decisions, patient, rated });
    },
  });
});

afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await api.stop();
});

async function application(approvedScope = ["data:read", "payments:send"]): Promise<Application> {
  const person = await api.person();
  const platform = await registerPlatform(person);
  const client: HttpClient = api.client();
  const headers = { "x-service-api-key": platform.apiKey };
  const agentId = await createAgent(client, platform);
  const post = (path: string, body?: unknown) => client.post(path, body, { headers, csrf: false });
  const present = async (fields: Record<string, unknown> = {}) => {
    const { body } = await post("/v1/service/challenge");
    const path = `/v1/service/connections/${platform.connectionId}/agents/${agentId}/present`;
    return post(path, { challenge: body.challenge, ...fields });
  };
  const world: Application = {
    person,
    platform,
    agentId,
    certId: "",
    post,
    present,
    proof: async () => (await present()).body.proof_bundle,
    verify: (proof, fields = {}) =>
      post("/v1/service/verify", { proof_bundle: proof, required_scope: "data:read", ...fields }),
  };
  if (approvedScope.length > 0) world.certId = await approve(world, approvedScope);
  return world;
}

async function approve({ person, platform }: Application, approvedScope: string[]): Promise<string> {
  const requestId = await selfRequest(person, platform.connectionId);
  const path = `/v1/service/delegations/requests/${requestId}/approve`;
  const { status, body } = await person.client.post(path, { approved_scope: approvedScope });
  expect(status).toBe(200);
  return String(body.cert_id);
}

function errorOf({ status, body }: HttpAnswer): string {
  return `${status} ${(body.error as { code?: string } | undefined)?.code}`;
}

describe("from a challenge to a decision", () => {
  test("a fresh proof of a granted scope is allowed, with a receipt whose hash can be checked", async () => {
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

  test("what the specification says of a proof's life: spent, not delegated, revoked, no more proofs", async () => {
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

  test("explain names each rule as passed, failed or not reached", async () => {
    const app = await application();
    const allowed = await app.verify(await app.proof(), { explain: true });
    const outcomes = (answer: HttpAnswer) =>
      new Set((answer.body.checks as { outcome: string }[]).map((check) => check.outcome));
    expect(outcomes(allowed)).toEqual(new Set(["passed"]));
    const denied = await app.verify(await app.proof(), { explain: true, required_scope: "files:read" });
    expect(outcomes(denied)).toEqual(new Set(["passed", "failed", "not_reached"]));
    expect((await app.verify(await app.proof())).body.checks).toBeUndefined();
  });

  test("32 parallel verifies of one challenge, 50 rounds: exactly one decision each", async () => {
    const app = await application();
    for (let round = 0; round < 50; round += 1) {
      const proof = await app.proof();
      const answers = await Promise.all(Array.from({ length: 32 }, () => app.verify(proof)));
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      expect(answers.filter((answer) => errorOf(answer) === "400 invalid_challenge")).toHaveLength(31);
    }
    const rows = await api
      .db("audit_events")
      .where({ account_id: app.person.accountId })
      .whereNotNull("decision");
    expect(rows).toHaveLength(50);
    const balance = await api.db("balances").where({ account_id: app.person.accountId }).first();
    expect(balance?.balance_micro_usd).toBe(10_000_000 - 50 * 2_000);
  }, 120_000);
});

describe("explain", () => {
  const outcomeOf = (answer: HttpAnswer, name: string) =>
    (answer.body.checks as { name: string; outcome: string }[]).find((check) => check.name === name)?.outcome;

  test("names the rule by which stored state decided, and none after it as passed", async () => {
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

describe("challenge", () => {
  test("takes an empty body, with or without a content type, and gives 32 bytes for 300 seconds", async () => {
    const app = await application([]);
    const plain = await app.post("/v1/service/challenge");
    expect(plain.status).toBe(200);
    expect(plain.body.ttl_seconds).toBe(300);
    expect(Buffer.from(String(plain.body.challenge), "base64")).toHaveLength(32);
    const client = api.client();
    const typed = await client.call("POST", "/v1/service/challenge", {
      headers: { "x-service-api-key": app.platform.apiKey, "content-type": "application/json" },
    });
    expect(typed.status).toBe(200);
  });

  test.each(["/v1/service/challenge", "/v1/service/verify"])(
    "%s without a key is 401 invalid_api_key",
    async (path) => {
      const client = api.client();
      expect(errorOf(await client.post(path, {}))).toBe("401 invalid_api_key");
      const headers = { "x-service-api-key": "dpz_AAAAAAAA_nonsense" };
      expect(errorOf(await client.post(path, {}, { headers }))).toBe("401 invalid_api_key");
    },
  );
});

describe("present", () => {
  test("without an approved delegation is 404 no_active_delegation", async () => {
    const app = await application([]);
    expect(errorOf(await app.present())).toBe("404 no_active_delegation");
  });

  test("presents the newest certificate, or the one named, or the newest that grants the scope", async () => {
    const app = await application(["data:read"]);
    api.clock.advance(1);
    const newest = await approve(app, ["payments:send"]);
    expect((await app.present()).body.cert_id).toBe(newest);
    expect((await app.present({ cert_id: app.certId })).body.cert_id).toBe(app.certId);
    expect((await app.present({ required_scope: "data:read" })).body.cert_id).toBe(app.certId);
    expect(errorOf(await app.present({ required_scope: "files:read" }))).toBe("404 no_active_delegation");
  });

  test("a challenge that is not of our form, or has ended, is 400 invalid_challenge", async () => {
    const app = await application();
    for (const challenge of ["", "AAAA", "not base64!", Buffer.alloc(32, 9).toString("base64")]) {
      expect(errorOf(await app.present({ challenge }))).toBe("400 invalid_challenge");
    }
    const { body } = await app.post("/v1/service/challenge");
    api.clock.advance(301);
    expect(errorOf(await app.present({ challenge: body.challenge }))).toBe("400 invalid_challenge");
  });

  test("another connection's agent, and another connection in the path, are 404 not_found", async () => {
    const [one, other] = [await application(), await application()];
    const { body } = await one.post("/v1/service/challenge");
    const paths = [
      [one.platform.connectionId, other.agentId],
      [other.platform.connectionId, other.agentId],
      [one.platform.connectionId, "0".repeat(32)],
      ["nonsense", "nonsense"],
    ].map(([connection, agent]) => `/v1/service/connections/${connection}/agents/${agent}/present`);
    for (const path of paths) {
      expect(errorOf(await one.post(path, { challenge: body.challenge }))).toBe("404 not_found");
    }
  });

  test("without the vault is 503 vault_unavailable, and leaves no trace in the history", async () => {
    const app = await application();
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    expect(errorOf(await app.present())).toBe("503 vault_unavailable");
    api.vault.failure = undefined;
    expect(await api.db("audit_events").where({ account_id: app.person.accountId })).toHaveLength(0);
    expect((await app.present()).status).toBe(200);
  });

  test("a bound session context stands in the proof, and 31 bytes are refused", async () => {
    const app = await application();
    const context = Buffer.alloc(32, 7).toString("base64");
    expect((await app.present({ session_context: context })).body.proof_bundle).toMatchObject({
      session_context: context,
    });
    const short = Buffer.alloc(31, 7).toString("base64");
    expect(errorOf(await app.present({ session_context: short }))).toBe("400 invalid_request");
  });
});

describe("verify", () => {
  test("with a foreign challenge is 400 invalid_challenge, and the proof still good where it belongs", async () => {
    const [one, other] = [await application(), await application()];
    const proof = await one.proof();
    expect(errorOf(await other.verify(proof))).toBe("400 invalid_challenge");
    expect((await one.verify(proof)).body.decision).toBe("allow");
  });

  test("a proof bound to a session that the call does not name is 400 session_context_mismatch, unspent", async () => {
    const app = await application();
    const { body } = await app.present({ session_context: Buffer.alloc(32, 7).toString("base64") });
    expect(errorOf(await app.verify(body.proof_bundle))).toBe("400 session_context_mismatch");
    expect(
      await api.db("audit_events").where({ account_id: app.person.accountId }).whereNotNull("decision"),
    ).toEqual([]);
  });

  test("credit for 3 decisions gives 3 of 12 parallel ones and 402 credits_exhausted for the rest", async () => {
    const app = await application();
    await api.db("balances").where({ account_id: app.person.accountId }).update({ balance_micro_usd: 6_500 });
    const proofs = await Promise.all(Array.from({ length: 12 }, () => app.proof()));
    const answers = await Promise.all(proofs.map((proof) => app.verify(proof)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(3);
    expect(answers.filter((answer) => errorOf(answer) === "402 credits_exhausted")).toHaveLength(9);
    const balance = await api.db("balances").where({ account_id: app.person.accountId }).first();
    expect(balance?.balance_micro_usd).toBe(500);
  });

  test("a scope that the platform's ceiling lost is denied with ceiling_exceeded", async () => {
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

  test("asks for what this version cannot check are 403 not_available, and spend nothing", async () => {
    const app = await application();
    const proof = await app.proof();
    expect(errorOf(await app.verify(proof, { operation: { verifier_id: "nope" } }))).toBe(
      "403 not_available",
    );
    expect(errorOf(await app.verify(proof, { proof_ref: "x" }))).toBe("403 not_available");
    expect(errorOf(await app.present({ operation: {} }))).toBe("403 not_available");
    expect((await app.verify(proof)).body.decision).toBe("allow");
  });

  test("U+0000 anywhere is a refusal, never a fault of ours", async () => {
    const app = await application();
    const proof = (await app.proof()) as { agent_id: string; delegations: Record<string, unknown>[] };
    expect(errorOf(await app.verify(proof, { required_scope: "custom:a\u0000b" }))).toBe("400 invalid_scope");
    for (const member of ["cert_id", "issuer_id", "subject_id"]) {
      const forged = { ...proof, delegations: [{ ...proof.delegations[0], [member]: "a\u0000b" }] };
      expect(errorOf(await app.verify(forged))).toBe("400 invalid_proof");
    }
    expect((await app.verify(proof)).body.decision).toBe("allow");
  });

  test("an expired certificate is not presented", async () => {
    const app = await application([]);
    const requestId = await selfRequest(app.person, app.platform.connectionId, { expires_in: 60 });
    const path = `/v1/service/delegations/requests/${requestId}/approve`;
    expect((await app.person.client.post(path, { approved_scope: ["data:read"] })).status).toBe(200);
    expect((await app.present()).status).toBe(200);
    api.clock.advance(61);
    expect(errorOf(await app.present())).toBe("404 no_active_delegation");
  });
});
