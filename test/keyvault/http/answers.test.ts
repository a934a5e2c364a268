import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { AuditEntry } from "../../../keyvault/audit/record.ts";
import { type ErrorCode, VaultError } from "../../../keyvault/errors.ts";
import { type AppParts, createApp } from "../../../keyvault/http/app.ts";
import { createMetrics } from "../../../keyvault/metrics.ts";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";

/* The operations are fakes, and the connections only pretend to have completed a handshake. */

const KEY = "0".repeat(32);
const END = new Date(Math.floor(Date.now() / 1000) * 1000 + 3_600_000);

const metrics = createMetrics();
let server: Server;
let base: string;
let port: number;
let now: Date;
let isSealed: boolean;
let role: "api" | "admin" | "auditor" | "none";
let refuses: () => Promise<unknown>;
let records: AuditEntry[];
let lines: Record<string, unknown>[];

beforeAll(async () => {
  const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: END };
  const authority = await createAuthority(validity);
  const certificates = new Map<string, X509Certificate>();
  for (const one of ["api", "admin", "auditor"] as const) {
    const made = await issueCertificate(authority, { kind: "client", role: one, name: "one" }, validity);
    certificates.set(one, new X509Certificate(made.certificate));
  }
  certificates.set("none", new X509Certificate(authority.certificate));
  const operation = () => refuses();
  const parts = {
    operations: () => (isSealed ? undefined : OPERATIONS),
    readiness: { check: async () => {} },
    journal: () => ({ record: async (entry: AuditEntry) => void records.push(entry) }),
    sealing: { state: () => (isSealed ? { since: "", reason: "asked", by: null } : undefined) },
    readStatus: operation,
    trust: { accepts: () => true, generation: () => 0 },
    metrics,
    clock: { now: () => now },
    log: pino({ level: "debug" }, { write: (line) => void lines.push(JSON.parse(line)) }),
  } as unknown as AppParts;
  const OPERATIONS = new Proxy({}, { get: () => operation });
  server = createServer(createApp(parts));
  server.on("connection", (socket: Socket) =>
    Object.assign(socket, { authorized: true, getPeerX509Certificate: () => certificates.get(role) }),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
  base = `http://127.0.0.1:${port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  now = new Date();
  isSealed = false;
  role = "api";
  records = [];
  lines = [];
  refuses = failing("internal");
});

function failing(code: ErrorCode, cause?: Error): () => Promise<never> {
  return () => Promise.reject(new VaultError(code, undefined, { cause }));
}

/** Sends a request on a new connection, with the role that the test has set. */
const ask = (path: string, init: RequestInit = {}) =>
  fetch(`${base}${path}`, { ...init, headers: { connection: "close", ...init.headers } });
const post = (path: string, body = "{}") =>
  ask(path, { method: "POST", body, headers: { "content-type": "application/json" } });
const codeOf = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;
const told = () => lines.map(({ event, code, level }) => ({ event, code, level }));
const [WARN, ERROR] = [40, 50];

test("every response forbids caching", async () => {
  for (const path of ["/livez", "/readyz", "/none"]) {
    expect((await ask(path)).headers.get("cache-control"), path).toBe("no-store");
  }
});

test("probe endpoints accept only GET and HEAD", async () => {
  for (const path of ["/livez", "/readyz"]) {
    expect((await ask(path, { method: "HEAD" })).status).toBe(200);
    for (const method of ["POST", "PUT", "DELETE"]) {
      expect(await codeOf(await ask(path, { method })), `${method} ${path}`).toBe("not_found");
    }
  }
});

test.each([
  ["token_unavailable", 503, "1"],
  ["audit_unavailable", 503, "1"],
  ["unavailable", 503, "1"],
  ["sealed", 503, "1"],
  ["key_damaged", 500, null],
  ["internal", 500, null],
] as const)(
  "the app responds to %s with %i, logs it as an error, and sends Retry-After if a retry may help",
  async (code, status, wait) => {
    refuses = failing(code);
    const answer = await ask(`/v1/keys/${KEY}?tenant=acc-1`);
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([status, wait]);
    expect(told()).toEqual([{ event: "call_failed", code, level: ERROR }]);
  },
);

test("the app logs an unexpected fault completely but reveals no details to the caller", async () => {
  refuses = () => Promise.reject(new TypeError("what is inside"));
  const answer = await ask(`/v1/keys/${KEY}?tenant=acc-1`);
  expect(answer.status).toBe(500);
  expect(await answer.text()).not.toContain("inside");
  expect(lines).toEqual([
    expect.objectContaining({
      event: "call_failed",
      code: "internal",
      path: `/v1/keys/${KEY}`,
      err: expect.objectContaining({ message: "what is inside", stack: expect.any(String) }),
    }),
  ]);
});

test("the app logs why a part does not answer, but does not send the reason", async () => {
  refuses = failing("token_unavailable", new Error("the module is gone"));
  expect(await (await ask(`/v1/keys/${KEY}?tenant=acc-1`)).text()).not.toContain("gone");
  expect(lines).toEqual([
    expect.objectContaining({ err: expect.objectContaining({ message: "the module is gone" }) }),
  ]);
});

test("the app logs a caller's mistake as a warning", async () => {
  await ask(`/v1/keys/${KEY}?tenant=acc-1`, { headers: { "content-type": "text/plain" }, method: "POST" });
  refuses = failing("forbidden");
  await ask(`/v1/keys/${KEY}?tenant=acc-1`);
  expect(told()).toEqual([{ event: "call_failed", code: "forbidden", level: WARN }]);
});

test("the app records a malformed attempt to change or sign, with its key id, but not a malformed read", async () => {
  expect((await post(`/v1/keys/${KEY}/sign/challenge`)).status).toBe(400);
  expect(records).toEqual([
    expect.objectContaining({
      keyId: KEY,
      statement: "call",
      outcome: "invalid_request",
      detail: expect.objectContaining({ call: "POST /v1/keys/:id/sign/challenge" }),
    }),
  ]);
  expect((await ask(`/v1/keys/${KEY}?tenant=a%0Ab`)).status).toBe(400);
  expect((await ask("/v1/keys/none?tenant=acc-1")).status).toBe(404);
  expect(records).toHaveLength(1);
  expect((await ask("/v1/keys")).status).toBe(403);
  expect(records.at(-1)).toMatchObject({ outcome: "forbidden", detail: { call: "GET /v1/keys" } });
});

test("the app logs refusals with the caller's name while the vault is sealed and cannot record them", async () => {
  isSealed = true;
  expect((await post("/v1/seal")).status).toBe(403);
  expect(records).toEqual([]);
  expect(lines).toEqual([
    expect.objectContaining({
      event: "refused_while_sealed",
      level: WARN,
      call: "POST /v1/seal",
      caller: "one",
      role: "api",
    }),
  ]);
});

test("the app closes the connection if it refuses a call before the body is complete", async () => {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(`POST /none HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{`);
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  expect(answer).toMatch(/^HTTP\/1\.1 404 [\s\S]*\r\nconnection: close\r\n/i);
});

test("the app reveals nothing to a caller without a role, not even that the vault is sealed", async () => {
  isSealed = true;
  expect(await codeOf(await ask("/v1/keys"))).toBe("sealed");
  role = "none";
  for (const path of ["/v1/keys", "/v1/status", "/none"]) {
    expect(await codeOf(await ask(path)), path).toBe("forbidden");
  }
});

test("a query with unknown or repeated parameters is rejected", async () => {
  expect(await codeOf(await ask(`/v1/keys/${KEY}?tenant=acc-1&tenants=acc-2`))).toBe("invalid_request");
  role = "admin";
  for (const query of ["after_id=1", "limit=2&limit=3", "tenant=a&tenant=b"]) {
    expect(await codeOf(await ask(`/v1/keys?${query}`)), query).toBe("invalid_request");
  }
  for (const query of ["after=-1", "after=1.5", "before=1", "limit=0"]) {
    expect(await codeOf(await ask(`/v1/audit?${query}`)), query).toBe("invalid_request");
  }
});

test("a body is accepted only with a content type of JSON in UTF-8", async () => {
  role = "admin";
  refuses = async () => ({ done: true });
  const typed = (type: string) =>
    ask("/v1/kek/rotate", { method: "POST", body: "{}", headers: { "content-type": type } });
  for (const type of ["application/json", "Application/JSON; charset=UTF-8"]) {
    expect((await typed(type)).status, type).toBe(200);
  }
  for (const type of ["application/json; charset=latin1", "application/json-seq", "text/json", ""]) {
    expect(await codeOf(await typed(type)), type).toBe("invalid_request");
  }
});

test("a call is refused if its certificate expires before its body is complete", async () => {
  role = "admin";
  let isAsked = false;
  refuses = async () => {
    isAsked = true;
    return { done: true };
  };
  const socket = connect(port, "127.0.0.1");
  const head = "POST /v1/kek/rotate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
  const begun = once(server, "request");
  socket.write(`${head}connection: close\r\ncontent-length: 2\r\n\r\n{`);
  await begun;
  now = new Date(END.getTime() + 1);
  socket.write("}");
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  expect(answer).toMatch(/^HTTP\/1\.1 403 [\s\S]*"The certificate has expired"/);
  expect(isAsked).toBe(false);
});

test("a failing stream aborts the response and is logged", async () => {
  role = "admin";
  refuses = async () =>
    Readable.from(
      (async function* () {
        yield Buffer.from("the beginning");
        throw new Error("the rest is gone");
      })(),
    );
  const answer = await post("/v1/backup");
  expect(answer.headers.get("content-type")).toBe("application/octet-stream");
  await expect(answer.text()).rejects.toThrow();
  await expect
    .poll(() => lines)
    .toEqual([
      expect.objectContaining({
        event: "answer_cut_off",
        level: WARN,
        path: "/v1/backup",
        err: expect.objectContaining({ message: "the rest is gone" }),
      }),
    ]);
});

test("metrics count each response by its call, without the key id", async () => {
  metrics.calls.reset();
  await ask(`/v1/keys/${KEY}/sign/challenge`, { method: "POST", body: "{" });
  await ask("/v1/nothing/of-the-kind");
  isSealed = true;
  await ask(`/v1/keys/${KEY}?tenant=acc-1`);
  const text = await metrics.registry.metrics();
  const counted = [...text.matchAll(/^keyvault_call_seconds_count\{(.*)\} (\d+)$/gm)].map(
    ([, ...one]) => one,
  );
  expect(counted).toEqual([
    ['call="POST /v1/keys/:id/sign/challenge",result="invalid_request"', "1"],
    ['call="other",result="not_found"', "1"],
    ['call="other",result="sealed"', "1"],
  ]);
  expect(text).not.toMatch(/acc-1|of-the-kind/);
});

test("the metric of a call's duration is in seconds, from its headers to its response", async () => {
  metrics.calls.reset();
  const before = performance.now();
  const clock = vi.spyOn(performance, "now").mockReturnValue(before);
  refuses = async () => {
    clock.mockReturnValue(before + 250);
    return {};
  };
  try {
    await ask(`/v1/keys/${KEY}?tenant=acc-1`);
  } finally {
    clock.mockRestore();
  }
  const { values } = await metrics.calls.get();
  const sums = values.filter(({ metricName }) => metricName === "keyvault_call_seconds_sum");
  const labels = { call: "GET /v1/keys/:id", result: "answered" };
  expect(sums).toEqual([expect.objectContaining({ labels, value: expect.closeTo(0.25) })]);
});
