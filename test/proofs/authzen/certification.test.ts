import { beforeAll, describe, expect, test } from "vitest";
import type { HttpAnswer } from "../../support/http.ts";
import { createAgent } from "../../support/platform_world.ts";
import { type Application, certify, proofApi, registryApplication } from "../application.ts";

/*
 * The levels Basic Core, Batch Core and Discovery of the OpenID Foundation's "AuthZEN Authorization API 1.0 -
 * Certification Scenario", draft of August 2026. The tests carry its section numbers. Its fixture has the
 * users alice and bob, who may read and write a record. Here alice and bob are agents, the actions are
 * scopes, and the record is the connection. The service decides by certificates and not by `properties`,
 * and has no search. So the levels Basic Properties, Batch Properties and Search do not apply.
 */

const world = proofApi();
const [READ, WRITE] = [{ name: "data:read" }, { name: "payments:send" }];
/** The scenario's own harness and the public test runners send the key in these ways. */
const FORMS = { bearer: (key: string) => `Bearer ${key}`, bare: (key: string) => key };

let app: Application;
let alice: { type: string; id: string };
let bob: typeof alice;
let record: typeof alice;
/** An unknown resource. */
const archived = { type: "record", id: "record-2" };
const context = { time: "2025-06-27T18:03-07:00", ip: "192.168.1.1" };

beforeAll(async () => {
  app = await registryApplication(world, [READ.name, WRITE.name]);
  const second = await createAgent(world.api.client(), app.platform);
  await certify(app, [READ.name], { agent_id: second });
  alice = { type: "agent", id: app.agentId };
  bob = { type: "agent", id: second };
  record = { type: "connection", id: app.platform.connectionId };
});

describe.each(Object.entries(FORMS))("a client that sends only Authorization (%s)", (_, form) => {
  const post = (path: string, body: unknown, headers: Record<string, string> = {}): Promise<HttpAnswer> =>
    world.api.client().post(`/access/v1/${path}`, body, {
      headers: { authorization: form(app.platform.apiKey), ...headers },
      csrf: false,
    });
  const ask = (body: unknown) => post("evaluation", body);
  const askAll = (body: unknown) => post("evaluations", body);
  const decision = ({ status, body }: HttpAnswer) => [status, body.decision];
  const decisions = ({ status, body }: HttpAnswer) => [
    status,
    (body.evaluations as { decision: unknown }[]).map((each) => each.decision),
  ];
  const reading = () => ({ subject: alice, action: READ, resource: record });

  test("gets the decisions of the fixture's core rules (2.2.1, 2.2.2)", async () => {
    expect(decision(await ask(reading()))).toEqual([200, true]);
    expect(decision(await ask({ ...reading(), action: WRITE }))).toEqual([200, true]);
    expect(decision(await ask({ ...reading(), subject: bob }))).toEqual([200, true]);
    expect(decision(await ask({ ...reading(), subject: bob, action: WRITE }))).toEqual([200, false]);
  });

  test("may add context, properties and unknown members (2.2.3, 2.2.8, 2.2.9, 5)", async () => {
    const rich = {
      subject: { ...alice, properties: { department: "Sales", role: "manager" } },
      action: { ...READ, properties: { method: "GET" } },
      resource: { ...record, properties: { status: "active", owner: "bob" } },
    };
    for (const body of [
      { ...reading(), context },
      rich,
      { ...reading(), foo: "bar", later: { nested: true } },
    ])
      expect(decision(await ask(body))).toEqual([200, true]);
  });

  test("gets JSON with a decision, and perhaps an object as context (2.3)", async () => {
    for (const resource of [record, archived]) {
      const { headers, body } = await ask({ ...reading(), resource });
      expect(headers.get("content-type")).toMatch(/^application\/json/);
      expect([typeof body.decision, typeof body.context]).toEqual(["boolean", "object"]);
    }
  });

  test.each([
    ["subject", { subject: undefined }],
    ["action", { action: undefined }],
    ["resource", { resource: undefined }],
    ["subject.type", { subject: { id: "alice" } }],
    ["subject.id", { subject: { type: "agent" } }],
    ["action.name", { action: {} }],
    ["resource.type", { resource: { id: "record-1" } }],
    ["resource.id", { resource: { type: "connection" } }],
    ["a subject that is an object", { subject: "alice" }],
    ["an action.name that is a text", { action: { name: 123 } }],
  ])("gets 400 without %s (2.4.1, 2.4.2, 2.4.6)", async (_, changes) => {
    expect((await ask({ ...reading(), ...changes })).status).toBe(400);
  });

  test("gets 400 for another content type, for malformed JSON and for an empty body (2.4.3 to 2.4.5)", async () => {
    const text = JSON.stringify(reading());
    for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
      expect((await post("evaluation", text, { "content-type": type })).status).toBe(400);
    }
    for (const body of ["{", ""]) {
      expect((await ask(body)).status).toBe(400);
    }
  });

  test("gets its X-Request-ID back, and needs none (2.5)", async () => {
    const id = "bfe9eb29-ab87-4ca3-be83-a1d5d8305716";
    for (const path of ["evaluation", "evaluations"]) {
      const named = await post(path, reading(), { "X-Request-ID": id });
      expect([named.status, named.headers.get("x-request-id")]).toEqual([200, id]);
      expect((await post(path, reading())).status).toBe(200);
    }
  });

  test("gets the same decision for a repeated question (2.6)", async () => {
    for (const [action, expected] of [
      [READ, true],
      [WRITE, false],
    ] as const) {
      const answers = [];
      for (let count = 0; count < 3; count += 1) {
        answers.push((await ask({ subject: bob, action, resource: record })).body.decision);
      }
      expect(answers).toEqual([expected, expected, expected]);
    }
  });

  test("gets an answer to each question of a batch, in order (3.2.1, 3.2.2, 3.2.5, 3.3)", async () => {
    const shared = {
      subject: alice,
      action: READ,
      evaluations: [{ resource: record }, { resource: archived }],
    };
    expect(decisions(await askAll(shared))).toEqual([200, [true, false]]);
    const actions = { subject: bob, resource: record, evaluations: [{ action: READ }, { action: WRITE }] };
    expect(decisions(await askAll(actions))).toEqual([200, [true, false]]);
    const evaluations = [reading(), { subject: bob, action: WRITE, resource: record }];
    const whole = await askAll({ evaluations });
    expect(decisions(whole)).toEqual([200, [true, false]]);
    expect(whole.body).not.toHaveProperty("decision");
  });

  test("may override a batch's context and its other defaults (3.2.6, 3.2.7)", async () => {
    const later = { time: "2025-06-27T19:00-07:00", source: "batch-override" };
    const evaluations = [{}, { resource: archived, context: later }, { subject: bob, action: WRITE }];
    expect(decisions(await askAll({ ...reading(), context, evaluations }))).toEqual([
      200,
      [true, false, false],
    ]);
  });

  test("gets false for an item without a required member, and answers to the others (3.4.1)", async () => {
    const { resource, ...shared } = reading();
    const options = { evaluations_semantic: "execute_all" };
    const answer = await askAll({ ...shared, options, evaluations: [{ resource }, {}] });
    expect(decisions(answer)).toEqual([200, [true, false]]);
  });

  test("gets one decision if the batch's list is absent or empty (3.4.2, 3.4.3)", async () => {
    expect(decision(await askAll(reading()))).toEqual([200, true]);
    expect(decision(await askAll({ ...reading(), evaluations: [] }))).toEqual([200, true]);
  });
});

test("a client finds the endpoints without credentials (6)", async () => {
  const { status, headers, body } = await world.api.client().get("/.well-known/authzen-configuration");
  expect([status, headers.get("content-type")]).toEqual([200, expect.stringMatching(/^application\/json/)]);
  const base = String(body.policy_decision_point);
  expect(body).toEqual({
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}/access/v1/evaluation`,
    access_evaluations_endpoint: `${base}/access/v1/evaluations`,
    access_request_endpoint: `${base}/v1/service/access-requests`,
  });
});
