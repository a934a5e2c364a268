import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAgent } from "../../src/sdk/agent/agent.ts";
import { createGuard, type GuardFault, type GuardSettings } from "../../src/sdk/guard.ts";
import { createLookUp } from "../../src/sdk/service/own_key.ts";
import { ALLOW, call, operation, verifier } from "./guarded.ts";
import { answering, type StubService, startStub } from "./stub_service.ts";

const SELF = { connection_id: "c-1", verifier_id: "v-1", workspace_id: "w-1", agent_id: null };
const bound = { ...call, operation, payload: { amount: 5 } };

let stub: StubService;
let self: [number, unknown];
let faults: GuardFault[];
beforeEach(async () => {
  [self, faults] = [[200, SELF], []];
  stub = await startStub((socket, request) => {
    const answer: [number, unknown] = request.target.endsWith("/keys/self") ? self : [200, ALLOW];
    answering(...answer)(socket, request);
  });
});
afterEach(() => stub.stop());

const guardWith = (settings: Partial<GuardSettings> = {}) => {
  const onFault = (fault: GuardFault) => void faults.push(fault);
  return createGuard({ baseUrl: stub.url, apiKey: "dpzv_key", onFault, ...settings });
};
const targets = () => stub.requests.map(({ method, target }) => `${method} ${target.split("/").at(-1)}`);
const verified = () =>
  stub.requests
    .filter(({ target }) => target.endsWith("/verify"))
    .map(({ body }) => JSON.parse(body).operation?.verifier_id);

describe("a guard without the name of its verifier", () => {
  test("reads the name once, with its key, for all calls that need it", async () => {
    const guard = guardWith();
    const runs = await Promise.all([1, 2, 3].map(() => guard.run(bound, () => "done")));
    expect(runs.map(({ executed }) => executed)).toEqual([true, true, true]);
    expect(verified()).toEqual(["v-1", "v-1", "v-1"]);
    expect(targets().filter((target) => target === "GET self")).toHaveLength(1);
    expect(stub.requests[0]?.headers["x-service-api-key"]).toBe("dpzv_key");
  });

  test("reads no name for a proof without an operation, for a refusal, or with a name in its settings", async () => {
    await guardWith().authorize(call);
    await guardWith().authorize({ ...bound, proof: undefined });
    await guardWith().authorize({ ...bound, payload: { text: "\ud800" } });
    await guardWith({ verifier }).authorize(bound);
    expect(verified()).toEqual([undefined, "connection-1"]);
    expect(targets()).toEqual(["POST verify", "POST verify"]);
  });

  test.each<[number, unknown]>([
    [401, { error: { code: "invalid_api_key" } }],
    [503, {}],
    [302, SELF],
    [200, { ...SELF, verifier_id: "" }],
    [200, '{"connection_id":"c","verifier_id":"v","workspace_id":"w","workspace_id":"x"}'],
    [200, "nonsense"],
  ])("runs nothing after the answer %i %j, and tries again with the next call", async (status, body) => {
    const guard = guardWith();
    self = [status, body];
    const refusal = { status: 503, code: "verification_unavailable" };
    const refused = { executed: false, refusal, record: { cause: "verifier_not_read" } };
    expect(await guard.run(bound, () => "done")).toMatchObject(refused);
    const fault =
      status === 401
        ? { kind: "key_refused", status, code: "invalid_api_key" }
        : { kind: "verifier_not_read", status };
    expect([targets(), faults]).toEqual([["GET self"], [fault]]);
    self = [200, SELF];
    expect(await guard.run(bound, () => "done")).toMatchObject({ executed: true });
  });

  test("binds the payload as it was when the call began", async () => {
    const payload = { amount: 5 };
    const running = guardWith().run({ ...bound, payload }, (given) => given);
    payload.amount = 500;
    expect(await running).toMatchObject({ executed: true, value: { amount: 5 } });
  });

  test("reads the name of each key that its settings return", async () => {
    const keys = ["dpzv_one", "dpzv_one", "dpzv_two"];
    const guard = guardWith({ apiKey: () => keys.shift() ?? "" });
    for (const _ of [1, 2, 3]) await guard.authorize(bound);
    expect(targets().filter((target) => target === "GET self")).toHaveLength(2);
  });
});

describe("an agent that waits for the ids of its key", () => {
  test("stops as soon as the caller aborts, and leaves the answer to the others", async () => {
    let answer = () => {};
    stub.respond((socket, request) => {
      if (!request.target.endsWith("/keys/self")) return answering(200, { proof_ref: "AQ" })(socket, request);
      answer = () => answering(200, { ...SELF, agent_id: "a-1" })(socket, request);
    });
    const shop = `${stub.url}/shop`;
    const agent = createAgent({ baseUrl: stub.url, apiKey: "k", verifiers: { [shop]: "own" } });
    const stop = new AbortController();
    const [first, second] = [stop.signal, undefined].map((signal) =>
      agent.fetch(shop, { scope: "data:read", ...(signal && { signal }) }),
    );
    stop.abort(new Error("enough"));
    await expect(first).rejects.toThrow("enough");
    await expect.poll(() => targets()).toEqual(["GET self"]);
    answer();
    expect((await second)?.status).toBe(200);
    await expect(agent.fetch(shop, { scope: "data:read", signal: stop.signal })).rejects.toThrow("enough");
  });
});

test("a look-up is repeated after a minute, and after a failure", async () => {
  let [now, reads] = [0, 0];
  const read = createLookUp(
    async () => {
      reads += 1;
      if (reads === 2) throw new Error("no answer");
      return reads;
    },
    () => now,
  );
  expect([await read("k"), await read("k")]).toEqual([1, 1]);
  now = 59_999;
  expect(await read("k")).toBe(1);
  now = 60_000;
  await expect(read("k")).rejects.toThrow("no answer");
  expect([await read("k"), await read("k")]).toEqual([3, 3]);
});
