import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpAnswer, HttpClient } from "../support/http.ts";
import { errorCode } from "../support/platform_world.ts";

const ALIAS = "ratify";
let api: TestApi;
beforeAll(async () => {
  api = await startApi({ config: { SERVICE_WORD: "service", SERVICE_WORD_ALIASES: [ALIAS] } });
});
afterAll(() => api.stop());

/** Returns a signed-in person's calls that contain only one service name in paths and headers. */
function callsUnder(word: string, client: HttpClient) {
  const csrf = () => ({ [`x-${word}-csrf`]: client.cookie("service_csrf") ?? "" });
  return {
    byPerson: (method: string, path: string, body?: unknown) =>
      client.call(method, `/v1/${word}/${path}`, { body, csrf: false, headers: csrf() }),
    byKey: (apiKey: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      api.client().call("POST", `/v1/${word}/${path}`, {
        body,
        csrf: false,
        headers: { [`x-${word}-api-key`]: apiKey, ...headers },
      }),
  };
}

function ok({ status, body, text }: HttpAnswer): Record<string, string> {
  if (status !== 200 && status !== 201) throw new Error(text);
  return body as Record<string, string>;
}

test("the whole flow works with only an alias of the service name, and verify answers in the protocol's wording", async () => {
  const { client, humanId } = await api.person();
  const { byPerson, byKey } = callsUnder(ALIAS, client);
  const { connection_id, api_key = "" } = ok(
    await byPerson("POST", "platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read", "payments:send"],
    }),
  );
  const agents = `connections/${connection_id}/agents`;
  const { agent_id } = ok(await byKey(api_key, agents, { name: "shop-bot", agent_type: "api_agent" }));
  const { request_id } = ok(await byPerson("POST", "delegations/self-request", { connection_id }));
  const approval = { approved_scope: ["data:read"] };
  const { cert_id } = ok(await byPerson("POST", `delegations/requests/${request_id}/approve`, approval));
  const present = async () => {
    const { challenge } = ok(await byKey(api_key, "challenge"));
    const { proof_bundle } = ok(await byKey(api_key, `${agents}/${agent_id}/present`, { challenge }));
    return Buffer.from(JSON.stringify(proof_bundle));
  };
  const known = { human_id: humanId, agent_id, cert_id };

  for (const encoding of ["base64", "base64url"] as const) {
    const proof = (await present()).toString(encoding);
    const allowed = await byKey(api_key, "verify", { proof_bundle: proof, required_scope: "data:read" });
    expect([allowed.status, allowed.body]).toMatchObject([
      200,
      {
        ...known,
        decision: "allow",
        valid: true,
        granted_scope: ["data:read"],
        identity_status: "authorized_agent",
        error_reason: null,
      },
    ]);
    const spent = await byKey(api_key, "verify", { proof_bundle: proof, required_scope: "data:read" });
    expect([spent.status, errorCode(spent)]).toEqual([400, "invalid_challenge"]);
  }

  const inHeader = await byKey(
    api_key,
    "verify",
    { required_scope: "payments:send" },
    { [`x-${ALIAS}-proof`]: (await present()).toString("base64url") },
  );
  expect(inHeader.body).toMatchObject({
    ...known,
    decision: "deny",
    decision_reason: "not_delegated",
    valid: false,
    granted_scope: [],
    identity_status: "scope_denied",
    error_reason: expect.stringMatching(/^scope_denied: /),
  });

  const proofs = [await present(), await present()];
  ok(await byPerson("POST", `delegations/${cert_id}/revoke`, { reason: "done" }));
  const revoked = { ...known, valid: false, granted_scope: [], identity_status: "revoked" };
  for (const [n, word] of [ALIAS, "service"].entries()) {
    const body = { proof_bundle: proofs[n]?.toString("base64"), required_scope: "data:read" };
    const denied = await callsUnder(word, client).byKey(api_key, "verify", body);
    expect(denied.body).toMatchObject({ ...revoked, decision_reason: "delegation_revoked" });
  }
  const list = ok(await api.client().get(`/v1/${ALIAS}/revocations/${humanId}`));
  expect(list).toMatchObject({ issuer_id: humanId, revoked_certs: [cert_id] });
  const { body } = await byPerson("GET", "audit/personal");
  const reasons = (body.events as { details: { decision_reason?: string } }[]).map(
    ({ details }) => details.decision_reason,
  );
  expect(reasons.filter((reason) => reason !== undefined)).toEqual([
    "delegation_revoked",
    "delegation_revoked",
    "not_delegated",
    "authorized",
    "authorized",
  ]);
});

test("a call may mix the service name and its alias, but not use an unknown name", async () => {
  const { client } = await api.person();
  const { connection_id, api_key = "" } = ok(
    await callsUnder("service", client).byPerson("POST", "platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    }),
  );
  for (const path of ["service", ALIAS]) {
    for (const header of ["service", ALIAS]) {
      const headers = { [`x-${header}-api-key`]: api_key };
      const answer = await api.client().post(`/v1/${path}/challenge`, undefined, { headers });
      expect(answer.status).toBe(200);
      const agents = await api.client().get(`/v1/${path}/connections/${connection_id}/agents`, { headers });
      expect(agents.status).toBe(200);
    }
  }
  const headers = { "x-other-api-key": api_key };
  expect(errorCode(await api.client().post("/v1/other/challenge", undefined, { headers }))).toBe("not_found");
  expect(errorCode(await api.client().post("/v1/service/challenge", undefined, { headers }))).toBe(
    "invalid_api_key",
  );
});

test("the service name and its alias share idempotency keys", async () => {
  const { client } = await api.person();
  const headers = { "idempotency-key": randomUUID() };
  const platform = { name: "Shop", surface_type: "agentic_api", default_allowed_scopes: ["data:read"] };
  const [first, again] = [
    await client.post("/v1/service/platforms/personal", platform, { headers }),
    await client.post(`/v1/${ALIAS}/platforms/personal`, platform, { headers }),
  ];
  expect(again.body).toEqual(first.body);
});
