import { describe, expect, test } from "vitest";
import { unixSeconds } from "../../src/clock.ts";
import { presentProof } from "../../src/protocol/statements/issuing.ts";
import { setCredit } from "../support/account_rows.ts";
import { AGENT, certify, ROOT } from "../support/chains.ts";
import type { HttpAnswer } from "../support/http.ts";
import { type Application, proofApi } from "./application.ts";

const world = proofApi();

type Asked = { path?: string; method?: string; headers?: Record<string, string> };

async function ask(app: Application, { path = "/data:read", method = "GET", headers = {} }: Asked = {}) {
  const key = { "x-service-api-key": app.platform.apiKey };
  const proof = { "x-service-proof": String((await app.present()).body.proof_ref) };
  const all = Object.fromEntries(
    Object.entries({ ...key, ...proof, ...headers }).filter(([, value]) => value !== ""),
  );
  const answer = await world.api
    .client()
    .call(method, `/v1/service/ext-auth${path}`, { headers: all, csrf: false });
  return decisionIn(answer);
}

function authority({ headers }: HttpAnswer): (string | null)[] {
  return ["human-id", "agent-id", "cert-id", "receipt-id"].map((name) => headers.get(`x-service-${name}`));
}

function question(app: Application, scope: string, proof: string): Promise<HttpAnswer> {
  const headers = { "x-service-api-key": app.platform.apiKey, "x-service-proof": proof };
  return world.api.client().get(`/v1/service/ext-auth/${scope}`, { headers });
}

async function bundleText(app: Application): Promise<string> {
  return Buffer.from(JSON.stringify(await app.proof())).toString("base64url");
}

function decisionIn({ status, headers }: HttpAnswer): string {
  return [status, headers.get("x-service-decision"), headers.get("x-service-decision-reason")].join(" ");
}

describe("/v1/service/ext-auth", () => {
  test.each(["GET", "POST", "PUT", "PATCH", "DELETE"])("allows %s with a valid proof", async (method) => {
    const app = await world.application();
    expect(await ask(app, { method })).toBe("200 allow authorized");
    expect(await ask(app, { method, path: "/data:read/orders/7?x=1" })).toBe("200 allow authorized");
  });

  test("denies with 403 and the reason", async () => {
    const app = await world.application();
    expect(await ask(app, { path: "/data:share" })).toBe("403 deny not_delegated");
    const proof = String((await app.present()).body.proof_ref);
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    const headers = { "x-service-api-key": app.platform.apiKey, "x-service-proof": proof };
    const answer = await world.api.client().get("/v1/service/ext-auth/data:read", { headers });
    expect(decisionIn(answer)).toBe("403 deny delegation_revoked");
    expect(answer.body).toEqual({ decision: "deny", decision_reason: "delegation_revoked" });
  });

  test("also accepts a whole bundle in the header", async () => {
    const app = await world.application();
    const proof = Buffer.from(JSON.stringify(await app.proof())).toString("base64url");
    expect(await ask(app, { headers: { "x-service-proof": proof } })).toBe("200 allow authorized");
  });

  test("refuses calls without a proof or with an invalid or spent proof, because they show no authority", async () => {
    const app = await world.application();
    expect(await ask(app, { headers: { "x-service-proof": "" } })).toBe("403 refuse proof_missing");
    expect(await ask(app, { headers: { "x-service-proof": "abc" } })).toBe("403 refuse invalid_proof");
    const proof = String((await app.present()).body.proof_ref);
    expect(await ask(app, { headers: { "x-service-proof": proof } })).toBe("200 allow authorized");
    expect(await ask(app, { headers: { "x-service-proof": proof } })).toBe("403 refuse invalid_challenge");
  });

  test("refuses a proof that is bound to a session context", async () => {
    const app = await world.application();
    const session_context = Buffer.alloc(32, 1).toString("base64");
    const proof = String((await app.present({ session_context })).body.proof_ref);
    expect(await ask(app, { headers: { "x-service-proof": proof } })).toBe(
      "403 refuse session_context_mismatch",
    );
  });

  test("answers 503 if no decision can be made", async () => {
    const app = await world.application();
    expect(await ask(app, { headers: { "x-service-api-key": "" } })).toBe("503 none invalid_api_key");
    expect(await ask(app, { headers: { "x-service-api-key": "dpz_x" } })).toBe("503 none invalid_api_key");
    expect(await ask(app, { path: "" })).toBe("503 none invalid_scope");
    expect(await ask(app, { path: "/data:*" })).toBe("503 none invalid_scope");
    await setCredit(world.api.db, app.person.accountId, 0);
    expect(await ask(app)).toBe("503 none credits_exhausted");
  });

  test("answers 503 if the certificate's state is unknown", async () => {
    const app = await world.application();
    const proof = Buffer.from(JSON.stringify(await app.proof())).toString("base64url");
    await world.api.db("certificates").where({ cert_id: app.certId }).delete();
    const headers = { "x-service-api-key": app.platform.apiKey, "x-service-proof": proof };
    const answer = await world.api.client().get("/v1/service/ext-auth/data:read", { headers });
    expect(decisionIn(answer)).toBe("503 indeterminate revocation_state_unavailable");
    expect(answer.headers.get("retry-after")).toBe("1");
  });

  test("uses the scope in the path, and the scope in the header only if the path has none", async () => {
    const app = await world.application();
    const named = (scope: string) => ({ "x-service-required-scope": scope });
    expect(await ask(app, { path: "", headers: named("data:read") })).toBe("200 allow authorized");
    expect(await ask(app, { path: "", headers: named("data:share") })).toBe("403 deny not_delegated");
    expect(await ask(app, { path: "/data:share", headers: named("data:read") })).toBe(
      "403 deny not_delegated",
    );
  });

  test("accepts a custom scope in the path, escaped or not", async () => {
    const app = await world.application(["custom:orders:refund"]);
    expect(await ask(app, { path: "/custom:orders:refund" })).toBe("200 allow authorized");
    expect(await ask(app, { path: "/custom%3Aorders%3Arefund/x" })).toBe("200 allow authorized");
  });

  test("returns the ids of the authority and of the receipt", async () => {
    const app = await world.application();
    const known = [app.person.humanId, app.agentId, app.certId];
    for (const scope of ["data:read", "data:share"]) {
      const answer = await question(app, scope, String((await app.present()).body.proof_ref));
      const [human, agent, cert, receiptId] = authority(answer);
      expect([human, agent, cert]).toEqual(known);
      const { body } = await app.person.client.get(`/v1/service/receipts/${receiptId}`);
      expect(body.receipt).toMatchObject({ receipt_id: receiptId, required_scope: scope });
    }
    const bundle = await bundleText(app);
    await world.api.db("certificates").where({ cert_id: app.certId }).delete();
    const unknown = await question(app, "data:read", bundle);
    expect(decisionIn(unknown)).toBe("503 indeterminate revocation_state_unavailable");
    expect(authority(unknown).slice(0, 3)).toEqual(known);
  });

  test("returns no ids without a decision", async () => {
    const app = await world.application();
    expect(authority(await question(app, "data:read", "abc"))).toEqual([null, null, null, null]);
    expect(authority(await question(app, "data:*", await bundleText(app)))).toEqual([null, null, null, null]);
  });

  test.each(["two\r\nlines: 1", "naïve", "with space", `cert-${"a".repeat(300)}`])(
    "omits the certificate's id from a denial if an untrusted issuer chose the id %j",
    async (cert_id) => {
      const app = await world.application();
      const { body } = await app.post("/v1/service/challenge");
      const now = unixSeconds(world.api.clock.now());
      const window = { issued_at: now - 60, expires_at: now + 600 };
      const certificate = await certify(ROOT, AGENT, { cert_id, scope: ["data:read"], ...window });
      const challenge = { challenge: String(body.challenge), challenge_at: now };
      const bundle = await presentProof(AGENT.privateKey, [certificate], challenge);
      const text = Buffer.from(JSON.stringify(bundle)).toString("base64url");
      const answer = await question(app, "data:read", text);
      expect(decisionIn(answer)).toBe("403 deny untrusted_root");
      expect(authority(answer)).toEqual([ROOT.id, AGENT.id, null, expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    },
  );
});
