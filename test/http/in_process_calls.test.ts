import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { ApiError } from "../../src/errors.ts";
import type { OperationInput, SiteDeps } from "../../src/http/in_process.ts";
import { type Call, route } from "../../src/route.ts";
import { traceparent } from "../../src/trace_context.ts";
import { startApi, type TestApi } from "../support/api.ts";

const seen: (Call<"session", unknown, unknown, unknown> & { trace: string | undefined })[] = [];
const see = route({
  id: "see",
  method: "POST",
  path: "/v1/see/{name}",
  summary: "See what arrives",
  access: "account",
  onboarding: "any",
  idempotent: true,
  params: z.object({ name: z.string() }),
  query: z.object({ a: z.string().optional() }),
  body: z.object({ number: z.int() }).optional(),
  answer: { status: 200, schema: z.object({ seen: z.int() }), description: "How many were seen" },
  errors: [],
  async handle(call) {
    seen.push(Object.assign(call as never, { trace: traceparent() }));
    return { body: { seen: seen.length } };
  },
});
const fail = route({
  id: "fail",
  method: "GET",
  path: "/v1/fail",
  summary: "Fail",
  access: "public",
  answer: { status: 200, schema: z.object({}), description: "Never" },
  errors: [],
  handle: async () => Promise.reject(new Error("a secret of the house")),
});

let api: TestApi;
let next: { id: string; input?: OperationInput } = { id: "see" };
beforeAll(async () => {
  const site = ({ inProcess }: SiteDeps) => ({
    id: "site",
    serves: (path: string) => path === "/site",
    answer: async (exchange: Parameters<typeof inProcess>[0]) => {
      const told = await inProcess(exchange, next.id, next.input).then(
        ({ status, body, cookies }) => ({ status, body, cookies: cookies.length }),
        (error: unknown) =>
          error instanceof ApiError ? { status: error.status, code: error.code } : String(error),
      );
      return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify(told) };
    },
  });
  api = await startApi({ site, routes: [see, fail], config: { TRUSTED_PROXIES: ["127.0.0.1"] } });
});
afterAll(() => api.stop());

async function person() {
  const client = api.client();
  await client.signIn(`person-${crypto.randomUUID()}@example.test`);
  const ask = async (id: string, input?: OperationInput, headers: Record<string, string> = {}) => {
    next = input === undefined ? { id } : { id, input };
    return (await client.get("/site", { headers })).body;
  };
  return { ask, csrf: client.cookie("service_csrf") ?? "" };
}

describe("an operation called in process", () => {
  const params = { name: "a/b" };

  test("receives its caller and its input", async () => {
    const { ask, csrf } = await person();
    const answer = await ask("see", {
      params,
      query: { a: "1 & 2", b: undefined },
      body: { number: 7 },
      csrf,
    });
    expect(answer).toMatchObject({ status: 200, cookies: 0 });
    expect(seen.at(-1)).toMatchObject({
      params,
      query: { a: "1 & 2" },
      body: { number: 7 },
      ip: "127.0.0.1",
    });
  });

  test("receives the address and the trace of the request for the page", async () => {
    const { ask, csrf } = await person();
    const trace = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
    await ask("see", { params, csrf }, { "x-forwarded-for": "203.0.113.9", traceparent: trace });
    expect(seen.at(-1)).toMatchObject({ ip: "203.0.113.9", trace });
  });

  test("fails without the CSRF token, without a session, or with an invalid body", async () => {
    const { ask, csrf } = await person();
    expect(await ask("see", { params })).toEqual({ status: 403, code: "csrf_failed" });
    expect(await ask("see", { params, csrf, body: { number: "7" } })).toEqual({
      status: 400,
      code: "invalid_request",
    });
    next = { id: "see", input: { params, csrf } };
    expect((await api.client().get("/site")).body).toEqual({ status: 401, code: "auth_required" });
  });

  test("ignores an API key in the request", async () => {
    const { ask } = await person();
    expect(await ask("see", { params }, { "x-service-api-key": "dpz_any" })).toEqual({
      status: 403,
      code: "csrf_failed",
    });
  });

  test("runs once for each idempotency key", async () => {
    const { ask, csrf } = await person();
    const input = { params, csrf, body: { number: 1 }, idempotencyKey: "once" };
    const [one, two] = [await ask("see", input), await ask("see", input)];
    expect(two).toEqual(one);
    expect(await ask("see", { ...input, body: { number: 2 } })).toEqual({
      status: 409,
      code: "idempotency_conflict",
    });
  });

  test("reveals no details of a failure, which is logged and counted under the operation's id", async () => {
    const { ask } = await person();
    expect(await ask("fail")).toEqual({ status: 500, code: "internal" });
    expect(api.lines.find((line) => line.includes('"route":"fail"'))).toBeDefined();
    expect(await api.metrics.registry.metrics()).toMatch(/route="fail",status="500"\} 1/);
    const log = api.lines.filter((line) => line.includes('"route":"site"'));
    expect(log).toEqual([]);
  });
});
