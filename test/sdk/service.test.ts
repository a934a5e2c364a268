import { createHash, randomUUID } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { requestHash } from "../../src/protocol/documents/context_binding.ts";
import { canonicalJson } from "../../src/protocol/encoding/canonical.ts";
import { createGuard, type GuardFault, type GuardSettings } from "../../src/sdk/guard.ts";
import { type Application, proofApi } from "../proofs/application.ts";

const world = proofApi();
const requiredScope = "payments:send";
const noAuthority = { executed: false, refusal: { status: 403, code: "no_authority_demonstrated" } };
const sha256 = (text: string) => createHash("sha256").update(text).digest();

function guardOf(app: Application, settings: Partial<GuardSettings> = {}) {
  const faults: GuardFault[] = [];
  const guard = createGuard({
    baseUrl: world.api.url,
    apiKey: app.platform.apiKey,
    onFault: (fault) => faults.push(fault),
    ...settings,
  });
  return { guard, faults };
}

/** Acts as the agent: binds a proof to the operation, and returns the proof in both forms. */
async function proveOperation(app: Application, { payload }: { payload?: unknown } = {}) {
  const digest = payload === undefined ? undefined : sha256(canonicalJson(payload));
  const named = { resource_id: "order-7", requested_path: "/orders/7/refund?fast=1" };
  const invocationId = randomUUID();
  const hash = requestHash({
    required_scope: requiredScope,
    operation: "refund",
    ...named,
    payload_digest: digest,
  });
  const operation = {
    verifier_id: app.platform.connectionId,
    workspace_id: app.person.accountId,
    agent_id: app.agentId,
    action: "refund",
    ...named,
    session_id: "s-1",
    invocation_id: invocationId,
    request_hash: Buffer.from(hash).toString("base64"),
    ...(digest === undefined ? {} : { payload_digest: digest.toString("base64") }),
  };
  const { status, body, text } = await app.present({ operation, required_scope: requiredScope });
  if (status !== 200) throw new Error(text);
  return { bundle: body.proof_bundle as object, ref: String(body.proof_ref), invocationId };
}

function operationOf(invocationId: string) {
  return {
    action: "refund",
    resourceId: "order-7",
    requestedPath: "/orders/7/refund?fast=1",
    sessionId: "s-1",
    invocationId,
  };
}

const outcomeOf = (invocationId: string) =>
  world.api
    .db("invocations as i")
    .leftJoin("outcomes as o", "o.event_id", "i.event_id")
    .where({ "i.invocation_id": invocationId })
    .first("o.outcome", "o.detail", "i.event_id");

describe("the guard with the real service", () => {
  test("runs the action once with a proof of a granted scope", async () => {
    const app = await world.application();
    const { guard } = guardOf(app);
    const proof = { proof_bundle: (await app.proof()) as object };
    const action = vi.fn();
    const run = await guard.run({ requiredScope, proof }, action);
    expect(run).toMatchObject({
      executed: true,
      authority: {
        agentId: app.agentId,
        humanId: app.person.humanId,
        certId: app.certId,
        grantedScope: ["data:read", "payments:send"],
        receiptHash: expect.stringMatching(/^sha256:/),
      },
    });
    const again = await guard.run({ requiredScope, proof }, action);
    expect(again).toMatchObject({ ...noAuthority, record: { cause: "bad_proof", status: 400 } });
    expect(action).toHaveBeenCalledOnce();
  });

  test("gets challenges over which only this connection accepts proofs", async () => {
    const [app, other] = [await world.application(), await world.application()];
    const action = vi.fn();
    const prove = async () => {
      const issued = await guardOf(app).guard.challenge("192.0.2.1");
      const { body } = await app.present({ challenge: issued?.challenge, required_scope: requiredScope });
      return { proof_bundle: body.proof_bundle as object };
    };
    const elsewhere = await guardOf(other).guard.run({ requiredScope, proof: await prove() }, action);
    expect(elsewhere).toMatchObject({ ...noAuthority, record: { status: 400 } });
    expect(action).not.toHaveBeenCalled();
    const run = await guardOf(app).guard.run({ requiredScope, proof: await prove() }, action);
    expect(run).toMatchObject({ executed: true });
  });

  test("refuses a scope that was not granted or was revoked, with the reason, and has no decision with a wrong API key", async () => {
    const app = await world.application(["data:read"]);
    const { guard } = guardOf(app);
    const proofs = [await app.proof(), await app.proof(), await app.proof()].map((each) =>
      JSON.stringify(each),
    );
    const action = vi.fn();
    const run = (proof: string | undefined, scope: string) =>
      guard.run({ requiredScope: scope, proof }, action);
    expect(await run(proofs[0], requiredScope)).toMatchObject({
      refusal: { status: 403, code: "not_delegated" },
    });
    await app.person.client.post(`/v1/service/delegations/${app.certId}/revoke`, {});
    expect(await run(proofs[1], "data:read")).toMatchObject({
      refusal: { status: 403, code: "delegation_revoked" },
    });
    const { guard: stranger } = guardOf(app, { apiKey: `${app.platform.apiKey}x` });
    expect(await stranger.run({ requiredScope: "data:read", proof: proofs[2] }, action)).toMatchObject({
      refusal: { status: 503 },
      record: { status: 401 },
    });
    expect(action).not.toHaveBeenCalled();
  });
});

describe("a proof bound to an operation", () => {
  const payload = { to: "DE1", amount: 12.5, note: "für Zoë\u2028" };

  test.each(["bundle", "ref"] as const)(
    "lets the operation run if the application gets the proof as a %s, and the outcome is recorded",
    async (form) => {
      const app = await world.application();
      const { guard, faults } = guardOf(app);
      const { bundle, ref, invocationId } = await proveOperation(app, { payload });
      const proof = form === "ref" ? ref : Buffer.from(JSON.stringify(bundle)).toString("base64url");
      const operation = { ...operationOf(invocationId), agentId: app.agentId };
      const run = await guard.run({ requiredScope, proof, payload, operation }, (given) => given);
      expect(run).toMatchObject({ executed: true, value: payload });
      await guard.flush();
      expect(faults).toEqual([]);
      const receiptId = run.executed ? run.authority.receiptId : "";
      expect(await outcomeOf(invocationId)).toEqual({
        outcome: "executed",
        detail: null,
        event_id: receiptId,
      });
    },
  );

  test("lets an operation without a payload run", async () => {
    const app = await world.application();
    const { ref, invocationId } = await proveOperation(app);
    const operation = { ...operationOf(invocationId), agentId: app.agentId };
    const run = await guardOf(app).guard.run({ requiredScope, proof: ref, operation }, () => "done");
    expect(run).toMatchObject({ executed: true, value: "done" });
  });

  test("lets nothing but the bound operation run", async () => {
    const app = await world.application();
    const { guard } = guardOf(app);
    const { bundle, invocationId } = await proveOperation(app, { payload });
    const proof = { proof_bundle: bundle };
    const operation = operationOf(invocationId);
    const call = { requiredScope, proof, payload, operation };
    const action = vi.fn();
    for (const changed of [
      { payload: { ...payload, amount: 1250 } },
      { payload: undefined },
      { requiredScope: "data:read" },
      { operation: { ...operation, action: "refund-all" } },
      { operation: { ...operation, resourceId: "order-8" } },
      { operation: { ...operation, requestedPath: "/orders/7/refund" } },
      { operation: { ...operation, sessionId: "s-2" } },
      { operation: { ...operation, invocationId: "another" } },
      { operation: { ...operation, agentId: "0".repeat(32) } },
      { operation: undefined },
    ]) {
      expect(await guard.run({ ...call, ...changed }, action)).toMatchObject(noAuthority);
    }
    expect(action).not.toHaveBeenCalled();
    expect(await guard.run(call, action)).toMatchObject({ executed: true });
    expect(action).toHaveBeenCalledExactlyOnceWith(payload, expect.anything());
  });

  test("lets the operation run only once, unless the application accepts repeated decisions", async () => {
    const app = await world.application();
    const { bundle, invocationId } = await proveOperation(app, { payload });
    const call = {
      requiredScope,
      proof: { proof_bundle: bundle },
      payload,
      operation: operationOf(invocationId),
    };
    const action = vi.fn();
    const { guard } = guardOf(app);
    expect(await guard.run(call, action)).toMatchObject({ executed: true });
    expect(await guard.run(call, action)).toMatchObject({
      refusal: { status: 403, code: "invocation_replayed" },
    });
    expect(action).toHaveBeenCalledOnce();
    const { guard: repeating } = guardOf(app, { replays: "execute" });
    expect(await repeating.run(call, action)).toMatchObject({ executed: true });
    await Promise.all([guard.flush(), repeating.flush()]);
  });

  test("leads to a recorded outcome even if the action fails or refuses", async () => {
    const app = await world.application();
    const { guard, faults } = guardOf(app);
    const first = await proveOperation(app, { payload });
    const failing = {
      requiredScope,
      proof: { proof_bundle: first.bundle },
      payload,
      operation: operationOf(first.invocationId),
    };
    const thrown = guard.run(failing, () => Promise.reject(new RangeError("no cover")));
    await expect(thrown).rejects.toThrow("no cover");
    const second = await proveOperation(app, { payload });
    const refusing = {
      requiredScope,
      proof: { proof_bundle: second.bundle },
      payload,
      operation: operationOf(second.invocationId),
    };
    await guard.run(refusing, (_payload, authority) =>
      authority.report("refused_by_receiver", "limit of the day"),
    );
    await guard.flush();
    expect(faults).toEqual([]);
    expect(await outcomeOf(first.invocationId)).toMatchObject({
      outcome: "failed",
      detail: "RangeError",
    });
    expect(await outcomeOf(second.invocationId)).toMatchObject({
      outcome: "refused_by_receiver",
      detail: "limit of the day",
    });
  });
});
