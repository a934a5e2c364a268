import { describe, expect, test } from "vitest";
import { actor, must } from "./story.ts";
import { errorOf } from "./visitor.ts";

const ada = actor("ada");

async function delegated(scope = ["data:read"]) {
  const agentId = await ada.createAgent();
  const certificate = await ada.delegate(agentId, scope);
  const revoke = (body: object = { reason: "over" }) =>
    ada.person.call("POST", `/v1/service/delegations/${String(certificate.cert_id)}/revoke`, body);
  return { agentId, certificate, revoke };
}

describe("3. States: approve", () => {
  test("an approval issues a certificate with the state approved, and can grant fewer scopes than requested", async () => {
    const { certificate } = await delegated(["payments:send"]);
    expect(certificate).toMatchObject({ status: "approved", approved_scope: ["payments:send"] });
  });

  test("a second approval of the same request issues no second certificate", async () => {
    const agent_id = await ada.createAgent();
    const asked = { connection_id: ada.connectionId, agent_id };
    const { request_id } = must(await ada.person.call("POST", "/v1/service/delegations/self-request", asked));
    const approve = () =>
      ada.person.call("POST", `/v1/service/delegations/requests/${String(request_id)}/approve`, {
        approved_scope: ["data:read"],
      });
    const answers = await Promise.all([approve(), approve()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(errorOf(await approve())).toBe("409 request_not_pending");
  });
});

describe("3. States: revoke", () => {
  test("an approved certificate can be revoked without a reason, and a repeated call returns the same response", async () => {
    const { certificate, revoke } = await delegated();
    const told = { cert_id: certificate.cert_id, status: "revoked" };
    expect(must(await revoke())).toEqual(told);
    expect(must(await revoke())).toEqual(told);
    const another = await delegated();
    expect(must(await another.revoke({}))).toMatchObject({ status: "revoked" });
  });

  test("existing proofs are denied with delegation_revoked after the revocation", async () => {
    const { agentId, revoke } = await delegated();
    const proof = await ada.proof(agentId);
    must(await revoke());
    expect(must(await ada.verify(proof, "data:read"))).toMatchObject({
      decision: "deny",
      decision_reason: "delegation_revoked",
    });
  });

  test("presenting a new proof after the revocation fails with 404 no_active_delegation", async () => {
    const { agentId, revoke } = await delegated();
    must(await revoke());
    expect(errorOf(await ada.present(agentId))).toBe("404 no_active_delegation");
  });
});

describe("3. Rules", () => {
  test("1. a scope that was not approved is denied with not_delegated, even with a valid certificate", async () => {
    const { agentId } = await delegated(["data:read"]);
    expect(must(await ada.verify(await ada.proof(agentId), "payments:send"))).toMatchObject({
      decision: "deny",
      decision_reason: "not_delegated",
    });
  });

  test("2. a used or unknown challenge is rejected with invalid_challenge", async () => {
    const { agentId } = await delegated();
    const proof = await ada.proof(agentId);
    expect(must(await ada.verify(proof, "data:read")).decision).toBe("allow");
    expect(errorOf(await ada.verify(proof, "data:read"))).toBe("400 invalid_challenge");
    const unknown = Buffer.alloc(32, 7).toString("base64");
    const path = `/v1/service/connections/${ada.connectionId}/agents/${agentId}/present`;
    expect(errorOf(await ada.application.call("POST", path, { challenge: unknown }))).toBe(
      "400 invalid_challenge",
    );
    const grace = actor("grace");
    const foreign = { challenge: await grace.challenge() };
    expect(errorOf(await ada.application.call("POST", path, foreign))).toBe("400 invalid_challenge");
    const named = { ...foreign, verifier_connection_id: grace.connectionId };
    const { proof_bundle } = must(await ada.application.call("POST", path, named));
    expect(errorOf(await ada.verify(proof_bundle, "data:read"))).toBe("400 invalid_challenge");
  });
});
