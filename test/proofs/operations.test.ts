import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { contextOf, type Operation } from "../../src/proofs/operation.ts";
import { errorOf, proofApi } from "./application.ts";
import { decide, operationOf, prove, BOUND_SCOPE as SCOPE, type Wish } from "./bound_operations.ts";

const world = proofApi();

describe("the API with operation-bound proofs", () => {
  test("allows the operation that a proof is bound to, and names the operation in the receipt", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const { body } = await decide(app, await prove(app, operation), operation);
    expect(body).toMatchObject({
      decision: "allow",
      replayed: false,
      receipt: { invocation_id: operation.invocation_id, request_hash: operation.request_hash },
    });
  });

  test.each([
    ["session_id", "s-2"],
    ["invocation_id", "other"],
    ["action", "refund-all"],
    ["resource_id", "order-8"],
    ["requested_path", "/orders/8/refund"],
    ["payload_digest", `sha256:${"0".repeat(64)}`],
    ["request_hash", `sha256:${"0".repeat(64)}`],
    ["agent_id", "0".repeat(32)],
  ])("refuses a different %s, and spends nothing", async (name, value) => {
    const app = await world.application();
    const operation = operationOf(app);
    const proof = await prove(app, operation);
    const answer = await decide(app, proof, { ...operation, [name]: value });
    expect(errorOf(answer)).toBe("400 session_context_mismatch");
    expect((await decide(app, proof, operation)).body.decision).toBe("allow");
  });

  test("refuses a changed operation that has a correct hash but was not signed", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const proof = await prove(app, operation);
    const changed = operationOf(app, { resource_id: "order-8" });
    const answer = await decide(app, proof, { ...changed, invocation_id: operation.invocation_id ?? "" });
    expect(errorOf(answer)).toBe("400 session_context_mismatch");
  });

  test("refuses a different scope, a missing operation, and an operation with an unbound proof", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const proof = await prove(app, operation);
    for (const attempt of [
      decide(app, proof, operation, { required_scope: "data:read" }),
      app.verify(proof, { required_scope: SCOPE }),
      decide(app, await app.proof(), operation),
    ]) {
      expect(errorOf(await attempt)).toBe("400 session_context_mismatch");
    }
  });

  test("refuses an operation that names a different agent, even if the proof's agent signed exactly this operation", async () => {
    const [app, other] = [await world.application(), await world.application()];
    const operation = { ...operationOf(app), agent_id: other.agentId };
    const context = contextOf(operation as unknown as Operation, SCOPE);
    const session_context = Buffer.from(context).toString("base64");
    const { body } = await app.present({ session_context, required_scope: SCOPE });
    const answer = await decide(app, body.proof_bundle, operation);
    expect(errorOf(answer)).toBe("400 session_context_mismatch");
    expect(answer.text).toContain("operation.agent_id: names another agent");
  });

  test.each(["verifier_id", "workspace_id"])(
    "answers 403 verifier_mismatch if the operation names a different %s",
    async (name) => {
      const [app, other] = [await world.application(), await world.application()];
      const id = name === "verifier_id" ? other.platform.connectionId : other.person.accountId;
      const operation = { ...operationOf(app), [name]: id };
      expect(errorOf(await decide(app, await prove(app, operation), operation))).toBe(
        "403 verifier_mismatch",
      );
    },
  );

  test("requires the verifier name that the connection registered", async () => {
    const app = await world.application();
    const path = `/v1/service/connections/${app.platform.connectionId}`;
    const name = "https://shop.example/api";
    const changed = await app.person.client.call("PATCH", path, { body: { verifier_id: name } });
    expect(changed.body).toEqual({
      connection_id: app.platform.connectionId,
      verifier_id: name,
      registry_answers: false,
      outside_verifiers: [],
    });
    const former = operationOf(app);
    const operation = { ...operationOf(app), verifier_id: name };
    expect((await decide(app, await prove(app, operation), operation)).status).toBe(200);
    expect(errorOf(await decide(app, await prove(app, former), former))).toBe("403 verifier_mismatch");
    const { body } = await app.person.client.get(`/v1/service/platforms/${app.platform.platformId}`);
    expect(body).toMatchObject({ verifier_id: name, registry_answers: false });
  });

  test("builds no proof for an operation with a different agent or scope, or for both an operation and a session context", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const present = (fields: object) => app.present({ operation, required_scope: SCOPE, ...fields });
    expect(errorOf(await present({ required_scope: "data:read" }))).toBe("400 session_context_mismatch");
    expect(errorOf(await present({ operation: { ...operation, agent_id: "x" } }))).toBe(
      "400 session_context_mismatch",
    );
    expect(errorOf(await present({ session_context: Buffer.alloc(32).toString("base64") }))).toBe(
      "400 invalid_request",
    );
  });

  test("treats an empty payload digest like an absent payload digest", async () => {
    const app = await world.application();
    const operation = { ...operationOf(app), payload_digest: "" };
    const { payload_digest: _, ...without } = operation;
    const first = await decide(app, await prove(app, operation), operation);
    expect(first.body).toMatchObject({ decision: "allow", replayed: false });
    const again = await decide(app, await prove(app, without), without);
    expect(again.body).toMatchObject({ decision: "allow", replayed: true });
  });

  test("records the application's action_profile in receipt and history, without binding the proof to it", async () => {
    const app = await world.application();
    const operation = { ...operationOf(app), action_profile: "refunds/v2~!" };
    const { action_profile: _, ...without } = operation;
    const { body } = await decide(app, await prove(app, without), operation);
    expect(body).toMatchObject({ decision: "allow", receipt: { action_profile: "refunds/v2~!" } });
    const { body: history } = await app.person.client.get("/v1/service/audit/personal");
    expect((history.events as unknown[])[0]).toMatchObject({ details: { action_profile: "refunds/v2~!" } });
    const again = await decide(app, await prove(app, without), without);
    expect(again.body).toEqual({ ...body, replayed: true });
    const none = { ...operationOf(app), action_profile: "" };
    expect((await decide(app, await prove(app, none), none)).body.receipt).not.toHaveProperty(
      "action_profile",
    );
  });

  test.each([
    ["a profile of 129 characters", { action_profile: "x".repeat(129) }],
    ["a profile with a space", { action_profile: "a b" }],
    ["a profile that is not ASCII", { action_profile: "é" }],
    ["a missing member", { session_id: undefined }],
    ["an empty invocation id", { invocation_id: "" }],
    ["an invocation id of 257 characters", { invocation_id: "x".repeat(257) }],
    ["an invocation id that no path can contain", { invocation_id: ".." }],
    ["U+0000", { resource_id: "a\u0000b" }],
    ["a lone surrogate", { resource_id: "\ud800" }],
    ["a malformed digest", { payload_digest: "sha256:00" }],
  ])("answers 400 invalid_request to %s", async (_, changes) => {
    const app = await world.application();
    const operation = { ...operationOf(app), ...changes } as Wish;
    expect(errorOf(await app.present({ operation }))).toBe("400 invalid_request");
    expect(errorOf(await decide(app, await app.proof(), operation))).toBe("400 invalid_request");
  });

  test("treats digests in hex and base64 as equal, and records them in the same form", async () => {
    const app = await world.application();
    const operation = operationOf(app);
    const hex = operation.request_hash?.slice(7) ?? "";
    const forms = [`sha256:${hex}`, hex, Buffer.from(hex, "hex").toString("base64")];
    for (const request_hash of forms) {
      const other = { ...operation, request_hash, invocation_id: randomUUID() };
      const { body } = await decide(app, await prove(app, other), other);
      expect(body).toMatchObject({ replayed: false, receipt: { request_hash: `sha256:${hex}` } });
      for (const form of forms) {
        const same = { ...other, request_hash: form };
        expect((await decide(app, await prove(app, same), same)).body.replayed).toBe(true);
      }
    }
  });
});
