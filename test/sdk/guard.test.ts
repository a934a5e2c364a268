import { describe, expect, test, vi } from "vitest";
import {
  createGuard,
  type GuardFault,
  guardExpress,
  guardFastify,
  guardFetch,
  guardKoa,
} from "../../src/sdk/guard.ts";
import {
  call,
  guardedWorld,
  noAuthority,
  noDecision,
  operation,
  proof,
  requiredScope,
  verifier,
} from "./guarded.ts";
import { answering } from "./stub_service.ts";

const world = guardedWorld();
const { guardWith, sentBodies } = world;

describe("the guard's request to verify", () => {
  test("contains the proof, the scope and the API key, and goes to the base URL", async () => {
    await guardWith({ baseUrl: `${world.stub.url}/prefix/of/it/` }).authorize({
      ...call,
      context: { amount: 5, currency: "EUR" },
    });
    expect(world.stub.requests[0]).toMatchObject({
      method: "POST",
      target: "/prefix/of/it/v1/service/verify",
      headers: { "x-service-api-key": "dpz_key", "content-type": "application/json" },
    });
    expect(sentBodies()).toEqual([
      { ...proof, required_scope: requiredScope, context: { amount: 5, currency: "EUR" } },
    ]);
  });

  test.each([
    ["a negative amount", { context: { amount: -0.01 } }, "invalid_amount"],
    ["an amount that is not a number", { context: { amount: Number.NaN } }, "invalid_amount"],
    ["an amount without end", { context: { amount: Infinity } }, "invalid_amount"],
    ["an amount as text", { context: { amount: "5" } }, "invalid_amount"],
    ["an encoded dot segment", { context: { path: "/pub/%2e%2e/admin" } }, "hidden_dot_segment"],
    [
      "an encoded dot segment of its operation",
      { operation: { ...operation, requestedPath: "/pub/..%2fadmin?x=1" } },
      "hidden_dot_segment",
    ],
  ])("never contains %s", async (_, fields, cause) => {
    const refused = await guardWith({ verifier }).authorize({ ...call, ...fields });
    expect(refused).toMatchObject({ allowed: false, refusal: noAuthority, record: { cause } });
    expect(world.stub.requests).toEqual([]);
  });

  test("may contain an amount of 0, and dots in a query", async () => {
    const requestedPath = "/orders/7?next=%2e%2e/x";
    await guardWith({ verifier }).authorize({ ...call, context: { amount: 0 } });
    await guardWith({ verifier }).authorize({ ...call, operation: { ...operation, requestedPath } });
    expect(sentBodies()).toMatchObject([{ context: { amount: 0 } }, { context: { path: "/orders/7" } }]);
  });

  test("contains the configured service name in its path and headers", async () => {
    const guard = guardWith({ word: "ratify" });
    await guard.authorize(call);
    expect(world.stub.requests[0]).toMatchObject({
      target: "/v1/ratify/verify",
      headers: { "x-ratify-api-key": "dpz_key" },
    });
    expect(guard.header("proof")).toBe("x-ratify-proof");
  });

  test("contains the API key that the application returns at the time of the call", async () => {
    const keys = ["first", "second"];
    const guard = guardWith({ apiKey: () => keys.shift() ?? "" });
    await guard.authorize(call);
    await guard.authorize(call);
    expect(world.stub.requests.map(({ headers }) => headers["x-service-api-key"])).toEqual([
      "first",
      "second",
    ]);
    const third = await guard.authorize(call);
    expect(third).toMatchObject({ allowed: false, refusal: noDecision, record: { cause: "no_api_key" } });
    const broken = guardWith({ apiKey: () => "line\r\nbreak" });
    expect(await broken.authorize(call)).toMatchObject({ allowed: false, refusal: noDecision });
    expect(world.stub.requests).toHaveLength(2);
  });

  test.each([
    ["a bundle's JSON", '{"agent_id":"aa","n":1.0}', { proof_bundle: { agent_id: "aa", n: 1 } }],
    ["base64", Buffer.from('{"a":"ÿ>?"}').toString("base64"), { proof_bundle: { a: "ÿ>?" } }],
    ["base64url", Buffer.from('{"a":"ÿ>?"}').toString("base64url"), { proof_bundle: { a: "ÿ>?" } }],
    ["an object", { proof_bundle: { a: 1 } }, { proof_bundle: { a: 1 } }],
    ["text in an envelope", { proof_bundle: '{"a":1}' }, { proof_bundle: { a: 1 } }],
    ["a reference", Buffer.from([1, 0, 1, 200]).toString("base64url"), { proof_ref: "AQAByA" }],
    ["a reference in an envelope", { proof_ref: "AQAByA" }, { proof_ref: "AQAByA" }],
  ])("contains the proof if the application passes it as %s", async (_name, source, expected) => {
    expect(await guardWith().authorize({ requiredScope, proof: source })).toMatchObject({ allowed: true });
    expect(sentBodies()).toEqual([{ ...expected, required_scope: requiredScope }]);
  });

  test("contains the bundle's text byte for byte", async () => {
    const text = '{ "n":1.0,"agent_id":"aa" }';
    await guardWith().authorize({ requiredScope, proof: text });
    expect(world.stub.requests[0]?.body).toContain(`{"proof_bundle":${text},`);
  });
});

describe("without calling verify, the guard", () => {
  test.each<[string, Parameters<ReturnType<typeof guardWith>["authorize"]>[0], string]>([
    ["no proof", { requiredScope, proof: undefined }, "no_proof"],
    ["an empty proof", { requiredScope, proof: "" }, "no_proof"],
    ["a proof that is neither JSON nor base64", { requiredScope, proof: "a, b" }, "malformed_proof"],
    ["truncated JSON", { requiredScope, proof: '{"a":1' }, "malformed_proof"],
    [
      "JSON with trailing content",
      { requiredScope, proof: '{"a":1},"required_scope":"x"' },
      "malformed_proof",
    ],
    ["a duplicate key", { requiredScope, proof: '{"a":1,"a":2}' }, "malformed_proof"],
    [
      "base64 of truncated JSON",
      { requiredScope, proof: Buffer.from('{"a":').toString("base64") },
      "malformed_proof",
    ],
    ["a bundle over 128 KiB", { requiredScope, proof: `{"a":"${"x".repeat(131_072)}"}` }, "malformed_proof"],
    ["a text that is too long", { requiredScope, proof: "A".repeat(180_001) }, "malformed_proof"],
    ["an action mapped to no scope", { requiredScope: undefined, proof }, "no_scope"],
    ["an action mapped to an empty scope", { requiredScope: "", proof }, "no_scope"],
    ["no invocation id", { ...call, operation: { ...operation, invocationId: "" } }, "incomplete_operation"],
    [
      "an operation without an agent",
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
    ["a body that was not read", { ...call, operation, unreadBody: true }, "unbindable_payload"],
  ])("returns 403 for %s", async (_name, given, cause) => {
    const authorization = await guardWith({ verifier }).authorize(given);
    expect(authorization).toMatchObject({
      allowed: false,
      refusal: noAuthority,
      record: { cause, status: undefined },
    });
    expect(world.stub.connections()).toBe(0);
  });

  test.each([
    ["a custom scope of one part", { ...call, requiredScope: "custom:refund" }],
    ["a custom wildcard", { ...call, requiredScope: "custom:orders:*" }],
    ["a wildcard", { ...call, requiredScope: "data:*" }],
    ["a scope outside the vocabulary", { ...call, requiredScope: "data:raed" }],
    ["an invalid scope, even without a proof", { requiredScope: "custom:refund", proof: undefined }],
    ["an unknown member, which would leave the proof unbound", { ...call, operations: operation }],
    ["an unknown member of the operation", { ...call, operation: { ...operation, resource: "order-7" } }],
    ["a payload that is an instance of a class", { ...call, payload: { at: new Date(0) } }],
    ["a payload with a function", { ...call, payload: { go: () => undefined } }],
  ])("throws a TypeError for a mistake of the application: %s", async (_name, given) => {
    const action = vi.fn();
    await expect(guardWith().run(given, action)).rejects.toThrow(TypeError);
    expect(action).not.toHaveBeenCalled();
    expect(world.stub.connections()).toBe(0);
  });
});

describe("a scope that the service does not accept", () => {
  test("counts as a fault of the application, not of its caller", async () => {
    world.stub.respond(answering(400, { error: { code: "invalid_scope", message: "", status: 400 } }));
    const faults: GuardFault[] = [];
    const guard = guardWith({ onFault: (fault) => faults.push(fault) });
    expect(await guard.authorize(call)).toMatchObject({
      allowed: false,
      refusal: noDecision,
      record: { cause: "invalid_scope", status: 400 },
    });
    expect(faults).toEqual([{ kind: "scope_not_accepted", requiredScope }]);
  });

  type Scope = string | (() => undefined);
  test.each<[string, (scope: Scope) => unknown]>([
    ["Express", (scope) => guardExpress(guardWith(), { requiredScope: scope })],
    ["Koa", (scope) => guardKoa(guardWith(), { requiredScope: scope })],
    ["Fastify", (scope) => guardFastify(guardWith(), { requiredScope: scope })],
  ])("causes a TypeError when a route of %s is created", (_name, guardRoute) => {
    for (const scope of ["custom:refund", "custom:a:b:c:d:e", "data:*", "nonsense"]) {
      expect(() => guardRoute(scope)).toThrow(TypeError);
    }
    for (const scope of ["custom:orders:refund", "data:read", () => undefined]) {
      expect(() => guardRoute(scope)).not.toThrow();
    }
  });
});

describe("a fault", () => {
  const error = { code: "invalid_api_key", message: "dpz_key", status: 401 };

  test.each([
    [answering(401, { error }), { kind: "key_refused", status: 401, code: "invalid_api_key" }],
    [answering(403, { error }), { kind: "key_refused", status: 403, code: "invalid_api_key" }],
    [answering(404, {}), { kind: "verification_failed", cause: "unexpected_status", status: 404 }],
    [answering(200, {}), { kind: "verification_failed", cause: "unknown_decision", status: 200 }],
  ])("reaches onFault with the service's status and code: %#", async (answer, fault) => {
    world.stub.respond(answer);
    const faults: GuardFault[] = [];
    const guard = guardWith({ onFault: (each) => faults.push(each) });
    expect(await guard.authorize(call)).toMatchObject({ allowed: false, refusal: noDecision });
    expect(await guard.authorize({ ...call, operation })).toMatchObject({ allowed: false });
    expect(faults[0]).toMatchObject(fault);
    if (fault.kind === "key_refused") expect(faults[1]).toEqual(faults[0]);
  });

  test("follows no refusal that a caller can cause", async () => {
    const faults: GuardFault[] = [];
    const guard = guardWith({ verifier, onFault: (each) => faults.push(each) });
    world.stub.respond(answering(400, { error: { code: "invalid_challenge", status: 400 } }));
    expect(await guard.authorize({ ...call, operation })).toMatchObject({ allowed: false });
    expect(faults).toEqual([]);
  });

  test("names the request's method and path, and a missing description, but no query", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const guard = createGuard({ baseUrl: world.stub.url, apiKey: "dpz_key", verifier });
    const serve = guardFetch(guard, { requiredScope, operation: true }, () => new Response());
    const headers = { "x-service-proof": proof.proof_bundle.agent_id, "x-service-agent-id": "a" };
    const refusals = [
      ["session_context_mismatch", 400, "inv-1"],
      ["invocation_conflict", 409, "inv-2"],
      ["invalid_request", 400, "inv-3"],
    ] as const;
    for (const [code, status, id] of refusals) {
      world.stub.respond(answering(status, { error: { code, status, message: "context.path: too\nlong" } }));
      const given = { method: "POST", headers: { ...headers, "x-service-invocation-id": id } };
      expect((await serve(new Request("https://shop.example/orders/7?token=x", given))).ok).toBe(false);
    }
    const lines = warned.mock.calls.map(([line]) => String(line));
    warned.mockRestore();
    const [other, conflict, unread] = lines;
    expect(other).toMatch(
      /: proof_for_other_operation, request POST \/orders\/7, code .* X-Service-Operation, which/,
    );
    expect(conflict).toMatch(/: invocation_conflict, request POST \/orders\/7, code invocation_conflict: /);
    expect(unread).toMatch(
      /: request_not_accepted, request POST \/orders\/7, status 400, code .*, message context\.path: too_long: /,
    );
    expect(lines.join()).not.toContain("token");
  });

  test("goes to the console once for each kind without onFault, and contains no secret", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    world.stub.respond(answering(401, { error }));
    const guard = createGuard({ baseUrl: world.stub.url, apiKey: "dpz_key", verifier });
    for (const given of [call, call, { ...call, operation, unreadBody: true }]) await guard.authorize(given);
    const lines = warned.mock.calls.map(([line]) => String(line));
    warned.mockRestore();
    expect(lines).toEqual([
      expect.stringMatching(/^deputize guard: key_refused, status 401, code invalid_api_key: .* verify key/),
      expect.stringMatching(/^deputize guard: body_not_read: .* body parser before the guard/),
    ]);
    expect(lines.join()).not.toContain("dpz_key");
  });
});

describe("a route", () => {
  const guards: [string, (route: never) => unknown][] = [
    ["Express", (route) => guardExpress(guardWith(), route)],
    ["Koa", (route) => guardKoa(guardWith(), route)],
    ["Fastify", (route) => guardFastify(guardWith(), route)],
    ["web requests", (route) => guardFetch(guardWith(), route, () => new Response())],
  ];

  test.each(guards)("causes a TypeError for each mistake when it is created for %s", (_name, guardRoute) => {
    const mistakes: [unknown, string][] = [
      [{ requiredScope, operations: true }, "route: unknown member operations. Known are: requiredScope, "],
      [{ scope: requiredScope }, "route: unknown member scope. Known are: requiredScope, "],
      [requiredScope, "route: must be an object. Its members can be: requiredScope, "],
      [undefined, "route: must be an object. "],
      [{}, "requiredScope: "],
      [{ requiredScope: "" }, "requiredScope: "],
      [{ requiredScope: 5 }, "requiredScope: "],
      [{ requiredScope, operation: "refund" }, "operation: must be true, or a function"],
      [{ requiredScope, operation: { action: "refund" } }, "operation: must be true, or a function"],
      [{ requiredScope, proof: "x-proof" }, "proof: must be a function"],
      [{ requiredScope, payload: { a: 1 } }, "payload: must be a function"],
      [{ requiredScope, context: { amount: 5 } }, "context: must be a function"],
    ];
    for (const [route, message] of mistakes) {
      expect(() => guardRoute(route as never), JSON.stringify(route)).toThrow(message);
    }
    const all = { requiredScope: () => "data:read", operation: false, context: () => ({}) };
    expect(() => guardRoute({ ...all, proof: () => "", payload: () => 1 } as never)).not.toThrow();
  });

  test("causes a TypeError without a guard, without a handler, and for unknown options", () => {
    const route = { requiredScope };
    expect(() => guardExpress(route as never, guardWith() as never)).toThrow("guard: must be one of");
    const fetched = (...rest: unknown[]) => guardFetch(guardWith(), route, ...(rest as [never]));
    expect(() => fetched()).toThrow("handler: must be a function");
    expect(() => fetched(() => new Response(), { maxBytes: 5 })).toThrow("options: unknown member maxBytes");
    expect(() => fetched(() => new Response(), { maxBodyBytes: "5" })).toThrow("maxBodyBytes: ");
  });
});

describe("the payload of the action", () => {
  test("becomes a frozen deep copy before the call to verify", async () => {
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

  test("becomes a private copy if it consists of bytes", async () => {
    const payload = Buffer.from("pay 5");
    const running = guardWith().run({ ...call, payload }, (given) => given as Buffer);
    payload.write("pay 9");
    const run = await running;
    const value = run.executed ? run.value : payload;
    expect(value.toString()).toBe("pay 5");
    expect(value.buffer.byteLength).toBe(value.length);
  });

  test("keeps a member named __proto__ as a member", async () => {
    const payload = JSON.parse('{"__proto__":{"isAdmin":true},"a":1}');
    const run = await guardWith().run({ ...call, payload }, (given) => given as Record<string, unknown>);
    const value = run.executed ? run.value : {};
    expect(Object.keys(value)).toEqual(["__proto__", "a"]);
    expect(value.isAdmin).toBeUndefined();
  });

  test("may have 64 levels of nesting but not 65, and may not contain circular references", async () => {
    const deep = (levels: number) => JSON.parse("[".repeat(levels) + "]".repeat(levels));
    const circle: unknown[] = [];
    circle.push(circle);
    expect(await guardWith().authorize({ ...call, payload: deep(64) })).toMatchObject({ allowed: true });
    for (const payload of [deep(65), circle]) {
      const refused = await guardWith().authorize({ ...call, payload });
      expect(refused).toMatchObject({ allowed: false, record: { cause: "unbindable_payload" } });
    }
  });

  test("may contain numbers without a canonical form if no operation is bound", async () => {
    const run = await guardWith().run({ ...call, payload: [1e300, 2 ** 60] }, (given) => given);
    expect(run).toMatchObject({ executed: true, value: [1e300, 2 ** 60] });
  });
});

describe("the guard's settings", () => {
  const good = { baseUrl: "https://service.example", apiKey: "k" };

  test.each([
    ["no URL", { baseUrl: "service" }],
    ["a scheme other than HTTP", { baseUrl: "ftp://service.example" }],
    ["credentials in the URL", { baseUrl: "https://u:p@service.example" }],
    ["a query in the URL", { baseUrl: "https://service.example/?a=1" }],
    ["an empty key", { apiKey: "" }],
    ["a key with a line break", { apiKey: "a\nb" }],
    ["a time limit of 0", { timeoutMs: 0 }],
    ["a time limit over 10 minutes", { timeoutMs: 600_001 }],
    ["a time limit of half a millisecond", { timeoutMs: 0.5 }],
    ["a service name with a slash", { word: "a/b" }],
    ["a URL that ends in /v1", { baseUrl: "https://service.example/v1/" }],
    ["another treatment of replays", { replays: "exectue" as never }],
    ["a function that is none", { retain: "log" as never }],
    ["an unknown setting", { principal: ["0".repeat(32)] }],
    ["a verifier without a name", { verifier: { verifierId: "", workspaceId: "w" } }],
  ])("reject %s", (_name, change) => {
    expect(() => createGuard({ ...good, ...change })).toThrow(TypeError);
  });

  test("name an unknown setting and the known ones, without values", () => {
    const settings = { ...good, apiKey: "dpz_secret", principal: ["0".repeat(32)] };
    expect(() => createGuard(settings)).toThrow(
      "settings: unknown member principal. Known are: baseUrl, apiKey, word, timeoutMs, agent, verifier, " +
        "principals, replays, challengesPerSecond, retain, onFault",
    );
  });

  test.each([{}, { timeoutMs: 1 }, { timeoutMs: 600_000 }, { baseUrl: new URL("http://10.0.0.1:80/a/") }])(
    "accept %j",
    (change) => {
      expect(() => createGuard({ ...good, ...change })).not.toThrow();
    },
  );

  test("never reveal the key in an error", () => {
    expect(() => createGuard({ ...good, apiKey: "secret\n" })).toThrow(expect.not.stringContaining("secret"));
  });
});
