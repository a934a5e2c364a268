import { beforeAll, describe, expect, test } from "vitest";
import type { NarrowRole } from "../../../src/route.ts";
import { approve, createAgent, selfRequest } from "../../support/platform_world.ts";
import { type Draft, draftOf, errorOf, idsOf, send } from "./call.ts";
import { contract, declaredRoutes } from "./documented.ts";
import { type DatabaseWatch, watchDatabase } from "./fingerprint.ts";
import { idPlacesOf } from "./isolation.ts";
import type { Operation, SeenAnswer } from "./openapi_document.ts";
import { SCOPE, type Scene, setScene } from "./scene.ts";
import { wholeApi } from "./world.ts";

/** All that narrow keys may do. Every other operation of the document must refuse them. */
const ALLOWED: Record<NarrowRole, readonly string[]> = {
  agent: [
    ...["create_challenge", "get_delegation", "get_own_api_key", "list_delegations", "present_proof"],
    ...["request_access", "get_access_request", "cancel_access_request"],
  ],
  verify: [
    ...["access_evaluation", "access_evaluations", "create_challenge", "get_own_api_key", "report_outcome"],
    ...["verify_proof", ...contract.operations.map(({ operationId }) => operationId).filter(isHook)],
  ],
};

function isHook(id: string): boolean {
  return id.startsWith("ext_auth_");
}

const api = wholeApi();
let scene: Scene;
let watch: DatabaseWatch;
/** Another agent of the same connection, and its certificate. */
let other: { agentId: string; certId: string };

beforeAll(async () => {
  scene = await setScene(api, { organization: true });
  const { person, platform } = scene;
  const agentId = await createAgent(api.client(), platform, { name: "other" });
  const request = await selfRequest(person, platform.connectionId, { agent_id: agentId });
  const { body } = await approve(person, request, [SCOPE]);
  other = { agentId, certId: String(body.cert_id) };
  watch = await watchDatabase(api.db);
});

const takesKeys = ({ security, operationId }: Operation) =>
  security.some((way) => "api_key" in way) || isHook(operationId);
const all = contract.operations.map((operation) => [operation.operationId, operation] as const);

/** Returns the credentials of a key in each header in which the operation accepts keys. */
const headersOf = (key: string): Draft["headers"] => [["x-service-api-key", key]];
const keyOf = (role: NarrowRole) => (role === "agent" ? scene.agentKey : scene.verifyKey);

async function call(draft: Draft, role: NarrowRole): Promise<SeenAnswer> {
  const answer = await send(api.url, draft, headersOf(keyOf(role)));
  expect(contract.violations(draft.operation, answer)).toEqual([]);
  return answer;
}

/** Returns a call that succeeds with a key that may make it. */
async function successful(operation: Operation): Promise<Draft> {
  const draft = draftOf(operation, scene);
  const bound = scene.operation();
  if (isHook(operation.operationId)) {
    const { proof_ref } = await scene.proof();
    return {
      ...draft,
      headers: [
        ["x-service-proof", proof_ref],
        ["x-service-required-scope", SCOPE],
      ],
    };
  }
  const context = async () => ({ proof_ref: (await scene.proof()).proof_ref });
  const { agentId, platform, sparedChallenge, certId, receiptId } = scene;
  const question = {
    subject: { type: "agent", id: agentId },
    resource: { type: "connection", id: platform.connectionId },
    action: { name: SCOPE },
  };
  switch (operation.operationId) {
    case "present_proof":
      return { ...draft, body: { challenge: sparedChallenge, cert_id: certId, operation: bound } };
    case "create_challenge":
      return { ...draft, query: [["verifier_connection_id", platform.connectionId]] };
    case "verify_proof": {
      const { proof_ref } = await scene.proof(bound);
      return { ...draft, body: { proof_ref, required_scope: SCOPE, operation: bound } };
    }
    case "report_outcome":
      return {
        ...draft,
        body: { outcome: "executed", receipt_id: receiptId, occurred_at: new Date().toISOString() },
      };
    case "access_evaluation":
      return { ...draft, body: { ...question, context: await context() } };
    case "access_evaluations":
      return { ...draft, body: { evaluations: [{ ...question, context: await context() }] } };
    case "request_access":
      return { ...draft, body: scene.asking() };
    default:
      return draft;
  }
}

describe.each(["agent", "verify"] as const)("a key with the role %s", (role) => {
  const allows = (operation: Operation) => ALLOWED[role].includes(operation.operationId);

  test.each(all.filter(([, operation]) => allows(operation)))("may call %s", async (_, operation) => {
    expect((await call(await successful(operation), role)).status).toBeOneOf([200, 202]);
  });

  test.each(all.filter(([, operation]) => !allows(operation) && !isHook(operation.operationId)))(
    "gains nothing at %s, and changes nothing",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      await watch.changes();
      if (operation.security.length === 0) {
        const empty = { ...draft, body: {} };
        const anonymous = errorOf(await send(api.url, empty, []));
        expect(errorOf(await call(empty, role))).toBe(anonymous);
        return;
      }
      const refused = takesKeys(operation) ? "403 key_not_allowed" : /^401 auth_required$/;
      expect(errorOf(await call(draft, role))).toMatch(refused);
      expect(await watch.changes()).toEqual([]);
    },
  );

  test("gets a refusal without a decision from the hook of gateways, unless it may verify", async () => {
    const [, operation] = all.find(([id]) => id === "ext_auth_post") as (typeof all)[number];
    const { status, text } = await call(await successful(operation), role);
    const reason = JSON.parse(text).decision_reason;
    expect([status, reason]).toEqual(role === "verify" ? [200, "authorized"] : [503, "key_not_allowed"]);
  });
});

test("AuthZEN clients may send a verify key as bearer token, but not an agent key", async () => {
  const operation = contract.operation("access_evaluation");
  const ask = async (key: string) =>
    errorOf(await send(api.url, await successful(operation), [["authorization", `Bearer ${key}`]]));
  expect([await ask(scene.verifyKey), await ask(scene.agentKey)]).toEqual(["200", "403 key_not_allowed"]);
});

test("the document names the roles of keys at each operation that a narrow key may call", () => {
  const named = contract.operations.filter((operation) => "x-key-roles" in operation);
  const roles = Object.fromEntries(
    named.map((operation) => [
      operation.operationId,
      (operation as unknown as Record<string, string[]>)["x-key-roles"],
    ]),
  );
  const expected = (id: string) =>
    (["agent", "verify"] as const).filter((role) => ALLOWED[role].includes(id));
  expect(roles).toEqual(
    Object.fromEntries([...new Set(Object.values(ALLOWED).flat())].map((id) => [id, expected(id)])),
  );
  expect(declaredRoutes.filter(({ keyRoles, access }) => keyRoles && access === "session")).toEqual([]);
});

describe("the key of one agent, used for another agent of its connection", () => {
  /** The answers of operations that agent keys may call. */
  const ANSWERS: Record<string, string> = {
    "present_proof path.agent_id": "404 not_found",
    "present_proof body.operation.agent_id": "400 session_context_mismatch",
    "list_delegations query.agent_id": "nothing",
    "request_access body.subject.id": "404 not_found",
    "request_access body.context.operation.agent_id": "404 not_found",
  };
  const places = contract.operations.flatMap((operation) =>
    idPlacesOf(operation)
      .filter(({ name, place }) => name === "agent_id" || place.endsWith("subject.id"))
      .map(({ place }) => [`${operation.operationId} ${place}`, operation, place] as const),
  );

  test.each(places)("gets nothing at %s", async (key, operation, place) => {
    const draft = await successful(operation);
    const [part, ...path] = place.split(".");
    if (part === "path") draft.params.agent_id = other.agentId;
    if (part === "query") draft.query = [["agent_id", other.agentId]];
    if (part === "body") {
      const theirs = JSON.stringify(draft.body).replaceAll(scene.agentId, other.agentId);
      draft.body = JSON.parse(theirs);
    }
    expect([place, path.length > 0]).toEqual([place, true]);
    await watch.changes();
    const answer = await call(draft, "agent");
    const seen = answer.text.startsWith('{"items":[],') ? "nothing" : errorOf(answer);
    const refusal = takesKeys(operation) ? "403 key_not_allowed" : "401 auth_required";
    expect(seen).toBe(ANSWERS[key] ?? refusal);
    expect(await watch.changes()).toEqual([]);
  });

  test("gets the same answer for that agent as for an unknown one", async () => {
    const operation = contract.operation("present_proof");
    const answers = [other.agentId, "0".repeat(32)].map(async (agent_id) => {
      const draft = await successful(operation);
      return (await call({ ...draft, params: { ...draft.params, agent_id } }, "agent")).text;
    });
    const [theirs, unknown] = await Promise.all(answers);
    expect(theirs).toBe(unknown);
  });

  test("reads the delegations of its own agent only", async () => {
    const list = await call(draftOf(contract.operation("list_delegations"), scene), "agent");
    const items = JSON.parse(list.text).items as { agent_id: string }[];
    expect(new Set(items.map(({ agent_id }) => agent_id))).toEqual(new Set([scene.agentId]));
    const draft = draftOf(contract.operation("get_delegation"), scene);
    const theirs = { ...draft, params: { ...draft.params, cert_id: other.certId } };
    expect(errorOf(await call(theirs, "agent"))).toBe("404 not_found");
    expect(idsOf(scene).cert_id).not.toBe(other.certId);
  });
});
