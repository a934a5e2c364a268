import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  createGuard,
  type GuardFault,
  type GuardSettings,
  type VerificationRecord,
} from "../../src/sdk/guard.ts";
import { answering, answeringBoth, type StubService, startStub } from "./stub_service.ts";

const RECEIPT = { receipt_id: "01a1fd7f-0000-7000-8000-000000000001" };
const ALLOW = {
  decision: "allow",
  decision_reason: "authorized",
  agent_id: "aa",
  human_id: "bb",
  cert_id: "cert-1",
  granted_scope: ["payments:send"],
  receipt: RECEIPT,
  receipt_hash: "sha256:00",
  replayed: false,
};
const noAuthority = { status: 403, code: "no_authority_demonstrated" };
const noDecision = { status: 503, code: "verification_unavailable" };
const proof = { proof_bundle: { agent_id: "aa", challenge: "x" } };
const requiredScope = "payments:send";
const verifier = { verifierId: "connection-1", workspaceId: "account-1" };
const operation = {
  action: "refund",
  invocationId: "inv-1",
  resourceId: "order-7",
  requestedPath: "/orders/7/refund?fast=1",
  sessionId: "s-1",
};
const call = { requiredScope, proof };

let stub: StubService;
beforeEach(async () => {
  stub = await startStub(answeringBoth(answering(200, ALLOW), answering(200, {})));
});
afterEach(() => stub.stop());

function guardWith(settings: Partial<GuardSettings> = {}) {
  return createGuard({ baseUrl: stub.url, apiKey: "dpz_key", ...settings });
}
function sentBodies(): Record<string, unknown>[] {
  return stub.requests.map(({ body }) => JSON.parse(body));
}

describe("what verify is asked", () => {
  test("is the proof and the scope, with the API key, below the base URL", async () => {
    await guardWith({ baseUrl: `${stub.url}/prefix/of/it/` }).authorize({
      ...call,
      context: { amount: 5, currency: "EUR" },
    });
    expect(stub.requests[0]).toMatchObject({
      method: "POST",
      target: "/prefix/of/it/v1/service/verify",
      headers: { "x-service-api-key": "dpz_key", "content-type": "application/json" },
    });
    expect(sentBodies()).toEqual([
      { ...proof, required_scope: requiredScope, context: { amount: 5, currency: "EUR" } },
    ]);
  });

  test("goes under the service's word", async () => {
    const guard = guardWith({ word: "ratify" });
    await guard.authorize(call);
    expect(stub.requests[0]).toMatchObject({
      target: "/v1/ratify/verify",
      headers: { "x-ratify-api-key": "dpz_key" },
    });
    expect(guard.header("proof")).toBe("x-ratify-proof");
  });

  test("carries the API key of that moment", async () => {
    const keys = ["first", "second"];
    const guard = guardWith({ apiKey: () => keys.shift() ?? "" });
    await guard.authorize(call);
    await guard.authorize(call);
    expect(stub.requests.map(({ headers }) => headers["x-service-api-key"])).toEqual(["first", "second"]);
    const third = await guard.authorize(call);
    expect(third).toMatchObject({ allowed: false, refusal: noDecision, record: { cause: "no_api_key" } });
    const broken = guardWith({ apiKey: () => "line\r\nbreak" });
    expect(await broken.authorize(call)).toMatchObject({ allowed: false, refusal: noDecision });
    expect(stub.requests).toHaveLength(2);
  });

  test.each([
    ["a bundle's JSON", '{"agent_id":"aa","n":1.0}', { proof_bundle: { agent_id: "aa", n: 1 } }],
    ["base64", Buffer.from('{"a":"ÿ>?"}').toString("base64"), { proof_bundle: { a: "ÿ>?" } }],
    ["base64url", Buffer.from('{"a":"ÿ>?"}').toString("base64url"), { proof_bundle: { a: "ÿ>?" } }],
    ["an object", { proof_bundle: { a: 1 } }, { proof_bundle: { a: 1 } }],
    ["text in an envelope", { proof_bundle: '{"a":1}' }, { proof_bundle: { a: 1 } }],
    ["a reference", Buffer.from([1, 0, 1, 200]).toString("base64url"), { proof_ref: "AQAByA" }],
    ["a reference in an envelope", { proof_ref: "AQAByA" }, { proof_ref: "AQAByA" }],
  ])("takes a proof as %s", async (_name, source, expected) => {
    expect(await guardWith().authorize({ requiredScope, proof: source })).toMatchObject({ allowed: true });
    expect(sentBodies()).toEqual([{ ...expected, required_scope: requiredScope }]);
  });

  test("passes a bundle's text on byte for byte", async () => {
    const text = '{ "n":1.0,"agent_id":"aa" }';
    await guardWith().authorize({ requiredScope, proof: text });
    expect(stub.requests[0]?.body).toContain(`{"proof_bundle":${text},`);
  });
});

describe("without asking verify, nothing runs", () => {
  test.each<[string, Parameters<ReturnType<typeof guardWith>["authorize"]>[0], string]>([
    ["no proof", { requiredScope, proof: undefined }, "no_proof"],
    ["an empty proof", { requiredScope, proof: "" }, "no_proof"],
    ["a proof that is neither JSON nor base64", { requiredScope, proof: "a, b" }, "malformed_proof"],
    ["JSON cut short", { requiredScope, proof: '{"a":1' }, "malformed_proof"],
    [
      "JSON that says more behind its end",
      { requiredScope, proof: '{"a":1},"required_scope":"x"' },
      "malformed_proof",
    ],
    ["a key given twice", { requiredScope, proof: '{"a":1,"a":2}' }, "malformed_proof"],
    [
      "base64 of cut JSON",
      { requiredScope, proof: Buffer.from('{"a":').toString("base64") },
      "malformed_proof",
    ],
    ["a bundle over 128 KiB", { requiredScope, proof: `{"a":"${"x".repeat(131_072)}"}` }, "malformed_proof"],
    ["too long a text", { requiredScope, proof: "A".repeat(180_001) }, "malformed_proof"],
    ["an action mapped to no scope", { requiredScope: undefined, proof }, "no_scope"],
    ["an action mapped to an empty scope", { requiredScope: "", proof }, "no_scope"],
    ["no invocation id", { ...call, operation: { ...operation, invocationId: "" } }, "incomplete_operation"],
    [
      "an agent that nothing names",
      { requiredScope, proof: { proof_ref: "AQ" }, operation },
      "incomplete_operation",
    ],
    ["text that cannot be hashed", { ...call, operation, payload: { a: "\ud800" } }, "unbindable_payload"],
    ["a number that has no canonical form", { ...call, operation, payload: [2 ** 53] }, "unbindable_payload"],
    [
      "an operation that cannot be hashed",
      { ...call, operation: { ...operation, resourceId: "\udfff" } },
      "unbindable_payload",
    ],
    ["a body that nobody has read", { ...call, operation, unreadBody: true }, "unbindable_payload"],
  ])("for %s: 403", async (_name, given, cause) => {
    const authorization = await guardWith({ verifier }).authorize(given);
    expect(authorization).toMatchObject({
      allowed: false,
      refusal: noAuthority,
      record: { cause, status: undefined },
    });
    expect(stub.connections()).toBe(0);
  });

  test.each([
    ["an operation, without a verifier in the settings", { ...call, operation }],
    ["a payload that is an instance of a class", { ...call, payload: { at: new Date(0) } }],
    ["a payload with a function", { ...call, payload: { go: () => undefined } }],
  ])("for what is the application's own fault: %s", async (_name, given) => {
    const action = vi.fn();
    await expect(guardWith().run(given, action)).rejects.toThrow(TypeError);
    expect(action).not.toHaveBeenCalled();
    expect(stub.connections()).toBe(0);
  });
});

describe("the payload that the action gets", () => {
  test("is a frozen deep copy, taken before verify is asked", async () => {
    const payload = { amount: 5, to: { iban: "DE1", notes: ["a"] }, gone: undefined };
    const running = guardWith().run({ ...call, payload }, (given) => given);
    payload.amount = 500;
    payload.to.iban = "DE2";
    payload.to.notes.push("b");
    const run = await running;
    expect(run).toMatchObject({ executed: true });
    const given = run.executed ? (run.value as typeof payload) : payload;
    expect(given).toStrictEqual({ amount: 5, to: { iban: "DE1", notes: ["a"] } });
    for (const part of [given, given.to, given.to.notes]) expect(Object.isFrozen(part)).toBe(true);
    expect(() => Object.assign(given.to, { iban: "DE3" })).toThrow(TypeError);
  });

  test("of bytes is a copy that nobody else has", async () => {
    const payload = Buffer.from("pay 5");
    const running = guardWith().run({ ...call, payload }, (given) => given as Buffer);
    payload.write("pay 9");
    const run = await running;
    const value = run.executed ? run.value : payload;
    expect(value.toString()).toBe("pay 5");
    expect(value.buffer.byteLength).toBe(value.length);
  });

  test("keeps a member called __proto__ as a member", async () => {
    const payload = JSON.parse('{"__proto__":{"isAdmin":true},"a":1}');
    const run = await guardWith().run({ ...call, payload }, (given) => given as Record<string, unknown>);
    const value = run.executed ? run.value : {};
    expect(Object.keys(value)).toEqual(["__proto__", "a"]);
    expect(value.isAdmin).toBeUndefined();
  });

  test("may be 64 deep, not 65, and not go round in a circle", async () => {
    const deep = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels));
    const circle: unknown[] = [];
    circle.push(circle);
    expect(await guardWith().authorize({ ...call, payload: deep(64) })).toMatchObject({ allowed: true });
    for (const payload of [deep(65), circle]) {
      const refused = await guardWith().authorize({ ...call, payload });
      expect(refused).toMatchObject({ allowed: false, record: { cause: "unbindable_payload" } });
    }
  });

  test("may hold numbers that cannot be bound, as long as nothing is bound", async () => {
    const run = await guardWith().run({ ...call, payload: [1e300, 2 ** 60] }, (given) => given);
    expect(run).toMatchObject({ executed: true, value: [1e300, 2 ** 60] });
  });
});

describe("an operation", () => {
  const lp = (value: string | Buffer) => {
    const bytes = Buffer.from(value as string);
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(bytes.length));
    return Buffer.concat([length, bytes]);
  };
  const sha = (...parts: (string | Buffer)[]) => {
    const hash = createHash("sha256");
    for (const part of parts) hash.update(part);
    return hash.digest();
  };
  const hex = (bytes: Buffer) => `sha256:${bytes.toString("hex")}`;

  test.each([
    [
      "of data, whose canonical JSON counts",
      { b: [1, "é"], a: null, c: undefined },
      Buffer.from('{"a":null,"b":[1,"é"]}'),
    ],
    ["of bytes, as they are", Buffer.from([0, 255]), Buffer.from([0, 255])],
    ["of text, as JSON", "pay", Buffer.from('"pay"')],
    ["of nothing", undefined, undefined],
  ])("is sent with the hashes of the wire format: a payload %s", async (_name, payload, bytes) => {
    await guardWith({ verifier }).authorize({ ...call, operation, payload });
    const digest = bytes === undefined ? Buffer.alloc(0) : sha(bytes);
    const expected = sha(
      "ratify/operation-context/v1",
      ...[requiredScope, "refund", "order-7", "/orders/7/refund?fast=1"].map(lp),
      lp(digest),
    );
    expect(sentBodies()[0]?.operation).toEqual({
      verifier_id: "connection-1",
      workspace_id: "account-1",
      agent_id: "aa",
      action: "refund",
      resource_id: "order-7",
      requested_path: "/orders/7/refund?fast=1",
      session_id: "s-1",
      invocation_id: "inv-1",
      request_hash: hex(expected),
      ...(bytes === undefined ? {} : { payload_digest: hex(digest) }),
    });
  });

  test("is bound to what the action gets, whatever the caller does to its object meanwhile", async () => {
    const payload = { amount: 5 };
    const running = guardWith({ verifier }).run({ ...call, operation, payload }, (given) => given);
    payload.amount = 500;
    const run = await running;
    expect(run).toMatchObject({ executed: true, value: { amount: 5 } });
    const sent = sentBodies()[0]?.operation as Record<string, string>;
    expect(sent.payload_digest).toBe(hex(sha('{"amount":5}')));
  });

  test("leaves out what the application leaves out, and names an agent that the proof does not", async () => {
    const bare = { action: "refund", invocationId: "inv-1", agentId: "cc", actionProfile: "p" };
    await guardWith({ verifier }).authorize({ requiredScope, proof: { proof_ref: "AQ" }, operation: bare });
    expect(sentBodies()[0]?.operation).toMatchObject({
      agent_id: "cc",
      resource_id: "",
      requested_path: "",
      session_id: "",
      action_profile: "p",
    });
  });

  test("that had been allowed before is not run again, unless the application says that it may be", async () => {
    stub.respond(answeringBoth(answering(200, { ...ALLOW, replayed: true }), answering(200, {})));
    const action = vi.fn();
    const refused = await guardWith({ verifier }).run({ ...call, operation }, action);
    expect(refused).toMatchObject({
      executed: false,
      refusal: { status: 403, code: "invocation_replayed" },
      record: { cause: "replayed", answer: { decision: "allow" } },
    });
    expect(action).not.toHaveBeenCalled();
    const again = await guardWith({ verifier, replays: "execute" }).run({ ...call, operation }, action);
    expect(again.executed).toBe(true);
    expect(action).toHaveBeenCalledOnce();
  });
});

describe("the authority that the action gets", () => {
  test("says who acts for whom, and is frozen", async () => {
    const run = await guardWith({ verifier }).run({ ...call, operation }, (_payload, authority) => authority);
    const authority = run.executed ? run.value : undefined;
    expect(authority).toMatchObject({
      requiredScope,
      agentId: "aa",
      humanId: "bb",
      certId: "cert-1",
      grantedScope: ["payments:send"],
      receiptId: RECEIPT.receipt_id,
      receiptHash: "sha256:00",
      operation: { invocation_id: "inv-1" },
    });
    for (const part of [authority, authority?.grantedScope, authority?.operation, authority?.record.answer]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  test("holds nothing that the service did not say, in the form it is said in", async () => {
    stub.respond(answering(200, { decision: "allow", agent_id: 5, granted_scope: "all", receipt: "x" }));
    const run = await guardWith().run(call, (_payload, authority) => authority);
    expect(run).toMatchObject({
      executed: true,
      value: { agentId: undefined, humanId: undefined, grantedScope: [], receiptId: undefined },
    });
  });
});

describe("the record of a verification", () => {
  test("is handed over before the action runs, with the whole answer and no secret", async () => {
    const order: string[] = [];
    const records: VerificationRecord[] = [];
    const retain = async (record: VerificationRecord) => {
      await new Promise((resolve) => setImmediate(resolve));
      records.push(record);
      order.push("retained");
    };
    await guardWith({ retain, verifier }).run({ ...call, operation, payload: { iban: "DE1" } }, () =>
      order.push("ran"),
    );
    expect(order).toEqual(["retained", "ran"]);
    expect(records[0]).toMatchObject({ cause: "allow", status: 200, requiredScope, refusal: undefined });
    expect(records[0]?.answer).toEqual(ALLOW);
    expect(JSON.stringify(records)).not.toMatch(/dpz_key|DE1|challenge/);
  });

  test("is handed over for refusals as well", async () => {
    const causes: string[] = [];
    const guard = guardWith({ retain: ({ cause }) => causes.push(cause) });
    await guard.authorize({ requiredScope, proof: undefined });
    stub.respond(answering(400, { error: { code: "invalid_challenge" } }));
    await guard.authorize(call);
    stub.respond((socket) => socket.destroy());
    await guard.authorize(call);
    expect(causes).toEqual(["no_proof", "bad_proof", "network"]);
  });

  test("that cannot be retained keeps an allowed action from running, and leaves a refusal what it is", async () => {
    const faults: GuardFault[] = [];
    const error = new Error("disk full");
    const guard = guardWith({
      verifier,
      onFault: (fault) => faults.push(fault),
      retain: () => {
        throw error;
      },
    });
    const action = vi.fn();
    const run = await guard.run({ ...call, operation }, action);
    expect(run).toMatchObject({
      executed: false,
      refusal: noDecision,
      record: { cause: "record_not_retained" },
    });
    expect(action).not.toHaveBeenCalled();
    expect(faults).toEqual([{ kind: "record_not_retained", error }]);
    await guard.flush();
    expect(sentBodies()[1]).toMatchObject({ outcome: "not_attempted", receipt_id: RECEIPT.receipt_id });
    stub.respond(answering(200, { decision: "deny", decision_reason: "not_delegated" }));
    expect(await guard.run(call, action)).toMatchObject({ refusal: { status: 403, code: "not_delegated" } });
  });
});

describe("settings", () => {
  const good = { baseUrl: "https://service.example", apiKey: "k" };

  test.each([
    ["no URL", { baseUrl: "service" }],
    ["another scheme", { baseUrl: "ftp://service.example" }],
    ["credentials in the URL", { baseUrl: "https://u:p@service.example" }],
    ["a query in the URL", { baseUrl: "https://service.example/?a=1" }],
    ["an empty key", { apiKey: "" }],
    ["a key with a line break", { apiKey: "a\nb" }],
    ["a budget of nothing", { timeoutMs: 0 }],
    ["a budget that a timer cannot keep", { timeoutMs: 600_001 }],
    ["half a millisecond", { timeoutMs: 0.5 }],
    ["a word that is no word", { word: "a/b" }],
    ["a verifier without a name", { verifier: { verifierId: "", workspaceId: "w" } }],
  ])("refuse %s", (_name, change) => {
    expect(() => createGuard({ ...good, ...change })).toThrow(TypeError);
  });

  test.each([{}, { timeoutMs: 1 }, { timeoutMs: 600_000 }, { baseUrl: new URL("http://10.0.0.1:80/a/") }])(
    "accept %j",
    (change) => {
      expect(() => createGuard({ ...good, ...change })).not.toThrow();
    },
  );

  test("never show the key in what they throw", () => {
    expect(() => createGuard({ ...good, apiKey: "secret\n" })).toThrow(expect.not.stringContaining("secret"));
  });
});
