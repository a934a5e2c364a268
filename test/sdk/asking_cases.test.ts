import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Ask, AwaitingApproval, createAgent, Denied, type Question } from "../../src/sdk/agent/agent.ts";
import { httpText, type StubRequest, type StubService, startStub } from "./stub_service.ts";

type Answer = { status: number; body: object; headers?: Record<string, string> };
type Kind = "present" | "application" | "asking" | "asked";
type Case = Record<Kind, string[]> & {
  name: string;
  ask: { purpose: string; wait?: number; show_payload?: boolean } | null;
  item: string | number;
  shown: boolean;
  result: Record<string, unknown>;
  calls: string[];
  questions: number;
};
const { answers, cases } = JSON.parse(readFileSync(new URL("asking.json", import.meta.url), "utf8")) as {
  answers: Record<string, Answer>;
  cases: Case[];
};

const SELF = { connection_id: "c-1", agent_id: "aa", verifier_id: "own-1", workspace_id: "w-1" };
const ASKING = "/v1/service/access-requests";

let stub: StubService;
beforeEach(async () => {
  stub = await startStub(() => undefined);
});
afterEach(() => stub.stop());

const kindOf = (target: string): Kind | "self" => {
  if (target === "/v1/service/keys/self") return "self";
  if (target.endsWith("/present")) return "present";
  if (target === ASKING) return "asking";
  return target.startsWith(`${ASKING}/`) ? "asked" : "application";
};

/** Answers each kind of call with its answers, one after the other. The last one stays. */
function play(script: Record<Kind, string[]>) {
  const left = structuredClone(script);
  stub.respond((socket, { target, headers }) => {
    const kind = kindOf(target);
    if (kind === "self") return void socket.write(httpText(200, JSON.stringify(SELF)));
    const [name = ""] = left[kind];
    if (left[kind].length > 1) left[kind].shift();
    const { status, body, headers: more } = answers[name] ?? { status: 500, body: {} };
    const invocation = headers["x-service-invocation-id"] ?? "";
    const text = JSON.stringify(body).replaceAll("{base}", stub.url).replaceAll("{invocation}", invocation);
    socket.write(httpText(status, text, more));
  });
}

function callOf({ target, headers, body }: StubRequest): string {
  const kind = kindOf(target);
  if (kind === "application") return `application ${headers["x-service-invocation-id"]}`;
  if (kind === "asking") return "ask";
  if (kind !== "present") return kind;
  const { operation, cert_id } = JSON.parse(body);
  return ["present", operation.invocation_id, cert_id].filter((part) => part !== undefined).join(" ");
}

function askOf({ ask }: Case): { ask?: Ask } {
  if (ask === null) return {};
  const { purpose, wait = 0, show_payload } = ask;
  return { ask: { purpose, waitMs: wait * 1_000, ...(show_payload === false && { showPayload: false }) } };
}

/** Returns the members of an error that a case can name. */
function errorOf(error: unknown): Record<string, unknown> {
  if (!(error instanceof Denied)) throw error;
  const { name, code, askFault = null, invocationId, evaluationId = null } = error;
  const found = { error: name, code, ask_fault: askFault };
  const ids = { invocation_id: invocationId, evaluation_id: evaluationId };
  const more = error instanceof AwaitingApproval && { task_id: error.taskId, url: error.url ?? null };
  return { ...found, ...ids, ...more };
}

/** `test_asking.py` runs the same cases in Python. */
describe("an agent asks", () => {
  test.each(cases)("$name", async (each) => {
    play(each);
    const questions: Question[] = [];
    const agent = createAgent({
      baseUrl: stub.url,
      apiKey: "dpza_key",
      verifiers: { [stub.url]: { verifierId: "shop-1", workspaceId: "w-2" } },
      pausesMs: [0, 0],
      onAsk: (question) => questions.push(question),
    });
    const item = typeof each.item === "number" ? "x".repeat(each.item) : each.item;
    const init = { scope: "data:read", invocationId: "i-1", body: { item }, ...askOf(each) };
    const result = await agent.fetch(`${stub.url}/orders`, init).then(({ status }) => ({ status }), errorOf);
    const expected = JSON.parse(JSON.stringify(each.result).replaceAll("{base}", stub.url));
    expect(result).toEqual(expected);
    expect(stub.requests.map(callOf)).toEqual(["self", ...each.calls]);
    expect(questions).toHaveLength(each.questions);
    const sent = (kind: Kind) =>
      stub.requests.filter(({ target }) => kindOf(target) === kind).map(({ body }) => JSON.parse(body));
    const [asked] = sent("asking");
    if (asked === undefined) return;
    const [{ operation }] = sent("present");
    const isPresented = each.calls[1] === "ask";
    expect(asked).toEqual({
      subject: { type: "agent", id: "aa" },
      denial: { evaluation_id: isPresented ? "c2VhbGVk" : "01a1fd7f-0000-7000-8000-000000000001" },
      requested_access: { scopes: ["data:read"] },
      context: { purpose: "Refund order 7", operation, ...(each.shown && { payload: { item } }) },
    });
  });
});

test("an agent rejects an invalid ask before it sends anything", async () => {
  const agent = createAgent({ baseUrl: stub.url, apiKey: "dpza_key", verifiers: { [stub.url]: "own" } });
  const fetchWith = (ask: object, init = {}) =>
    agent.fetch(stub.url, { scope: "data:read", ask: { purpose: "Refund", ...ask } as Ask, ...init });
  for (const ask of [
    ...[{ purpose: "" }, { purpose: " " }, { purpose: 5 }, { showPayload: 1 }],
    ...[{ waitMs: -1 }, { waitMs: 0.5 }, { waitMs: 86_400_001 }, { waitMs: "1" }],
    ...[{ until: new Date(Number.NaN) }, { until: "2026-12-01T00:00:00Z" }],
  ]) {
    await expect(fetchWith(ask)).rejects.toThrow(/^ask\./);
  }
  await expect(fetchWith({}, { invocationId: "x".repeat(251) })).rejects.toThrow("250 characters");
  expect(stub.requests).toEqual([]);
});
