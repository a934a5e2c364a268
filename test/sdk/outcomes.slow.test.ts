import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createGuard, type GuardFault } from "../../src/sdk/guard.ts";
import { answering, answeringBoth, type StubBehaviour, type StubService, startStub } from "./stub_service.ts";

const receipt_id = "01a1fd7f-0000-7000-8000-000000000001";
const allowing = answering(200, { decision: "allow", receipt: { receipt_id } });
const taken = answering(200, {});
const operation = { action: "refund", invocationId: "inv 1/ü", agentId: "aa" };
const call = { requiredScope: "payments:send", proof: { proof_ref: "AQ" }, operation };

let stub: StubService;
let faults: GuardFault[];
beforeEach(async () => {
  faults = [];
  stub = await startStub(answeringBoth(allowing, taken));
});
afterEach(() => stub.stop());

function newGuard() {
  return createGuard({
    baseUrl: `${stub.url}/p`,
    apiKey: "dpz_key",
    timeoutMs: 5_000,
    verifier: { verifierId: "v", workspaceId: "w" },
    onFault: (fault) => faults.push(fault),
  });
}
function reports() {
  return stub.requests
    .filter(({ target }) => target.endsWith("/outcome"))
    .map(({ body }) => JSON.parse(body) as Record<string, string>);
}

describe("the report of an action's outcome", () => {
  test("contains `executed` after a run, with the invocation and the receipt", async () => {
    const guard = newGuard();
    await guard.run(call, () => undefined);
    await guard.flush();
    expect(stub.requests[1]).toMatchObject({
      method: "POST",
      target: "/p/v1/service/invocations/inv%201%2F%C3%BC/outcome",
      headers: { "x-service-api-key": "dpz_key" },
    });
    expect(reports()).toEqual([
      { outcome: "executed", receipt_id, occurred_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/) },
    ]);
  });

  test("contains `failed` and only the error's name after an error, and the error is rethrown", async () => {
    const guard = newGuard();
    const error = new RangeError("account DE1 has no cover");
    const failing = () => Promise.reject(error);
    await expect(guard.run(call, failing)).rejects.toBe(error);
    await guard.flush();
    expect(reports()).toMatchObject([{ outcome: "failed", detail: "RangeError" }]);
  });

  test("comes from the action itself if the action reports an outcome, and is sent only once", async () => {
    const guard = newGuard();
    await guard.run(call, (_payload, authority) => {
      authority.report("refused_by_receiver", `limit\u0000\n of ${"x".repeat(600)}`);
      authority.report("failed");
    });
    await guard.flush();
    expect(reports()).toMatchObject([{ outcome: "refused_by_receiver" }]);
    expect(reports()[0]?.detail).toMatch(/^limit {3}of x+$/);
    expect(reports()[0]?.detail).toHaveLength(500);
  });

  test("does not reach the service for a refusal, or for a proof that is not bound to an operation", async () => {
    const guard = newGuard();
    await guard.run({ ...call, operation: undefined }, () => undefined);
    stub.respond(answering(200, { decision: "deny", decision_reason: "not_delegated" }));
    await guard.run(call, () => undefined);
    await guard.flush();
    expect(reports()).toEqual([]);
  });

  test("does not delay the result of the action", async () => {
    const guard = newGuard();
    let release = () => {};
    stub.respond(
      answeringBoth(allowing, (socket, request) => {
        release = () => taken(socket, request);
      }),
    );
    expect(await guard.run(call, () => "done")).toMatchObject({ executed: true, value: "done" });
    let flushed = false;
    const flushing = guard.flush().then(() => {
      flushed = true;
    });
    await expect.poll(() => reports()).toHaveLength(1);
    expect(flushed).toBe(false);
    release();
    await flushing;
  });
});

describe("a report that the service does not accept", () => {
  test.each<[string, StubBehaviour]>([
    ["a broken connection", (socket) => socket.destroy()],
    ["503", answering(503, {})],
    ["429", answering(429, {})],
  ])("gets sent again unchanged after %s, until the service accepts the report", async (_name, behaviour) => {
    const guard = newGuard();
    let failures = 2;
    stub.respond(
      answeringBoth(allowing, (socket, request) => {
        failures -= 1;
        (failures >= 0 ? behaviour : taken)(socket, request);
      }),
    );
    await guard.run(call, () => undefined);
    await guard.flush();
    const [first, ...others] = reports();
    expect(others).toEqual([first, first]);
    expect(faults).toEqual([]);
  });

  test("gets sent three times at most, and then onFault is called", async () => {
    const guard = newGuard();
    stub.respond(answeringBoth(allowing, answering(500, {})));
    await guard.run(call, () => undefined);
    await guard.flush();
    expect(reports()).toHaveLength(3);
    expect(faults).toEqual([
      {
        kind: "outcome_not_reported",
        invocationId: operation.invocationId,
        outcome: "executed",
        status: 500,
      },
    ]);
  });

  test.each([400, 401, 404, 409])("does not get sent again after %i", async (status) => {
    const guard = newGuard();
    stub.respond(answeringBoth(allowing, answering(status, {})));
    await guard.run(call, () => undefined);
    await guard.flush();
    expect(reports()).toHaveLength(1);
    expect(faults).toMatchObject([{ kind: "outcome_not_reported", status }]);
  });
});
