import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { runningApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { actingFor, addMember } from "../../support/members.ts";
import {
  copyRequest,
  createAgent,
  errorCode,
  registerPlatform,
  requested,
} from "../../support/platform_world.ts";

const PATH = "/v1/service/delegations/self-request";

const api = runningApi();

const codeOf = (answer: HttpAnswer) => `${answer.status} ${errorCode(answer) ?? "pending"}`;

/** A person's connection with one pending request, and a function that requests another one. */
async function alone() {
  const made = await requested(api);
  const body = { connection_id: made.platform.connectionId };
  const ask = async (fields = {}) => codeOf(await made.person.client.post(PATH, { ...body, ...fields }));
  const deny = () => made.person.client.post(`/v1/service/delegations/requests/${made.requestId}/deny`);
  return { ...made, ask, deny };
}

/** An organization's connection with one pending request, and functions that request another one. */
async function organization() {
  const owner = await api.person({ organization_name: "Mills" });
  const connect = async () => {
    const platform = await registerPlatform(owner, {}, "/v1/service/platforms");
    await createAgent(api.client(), platform);
    return platform.connectionId;
  };
  const connectionId = await connect();
  const askAs = async (account: Awaited<ReturnType<typeof addMember>>, connection = connectionId) =>
    codeOf(await actingFor(account, owner.accountId).post(PATH, { connection_id: connection }));
  const developer = await addMember(api, owner.accountId, "developer");
  expect(await askAs(developer)).toBe("201 pending");
  const [request] = await api.db("delegation_requests").where({ connection_id: connectionId });
  return { owner, developer, connectionId, connect, askAs, requestId: String(request?.request_id) };
}

describe("a connection", () => {
  test("has at most 50 pending requests, and a decision makes room for another one", async () => {
    const { requestId, ask, deny } = await alone();
    await copyRequest(api.db, requestId, 48);
    expect([await ask(), await ask()]).toEqual(["201 pending", "409 request_limit"]);
    await deny();
    expect([await ask(), await ask()]).toEqual(["201 pending", "409 request_limit"]);
  });

  test("has at most 50 pending requests, also if many are requested at the same time", async () => {
    const { requestId, ask, platform } = await alone();
    await copyRequest(api.db, requestId, 44);
    const answers = await Promise.all(Array.from({ length: 12 }, () => ask()));
    expect(answers.filter((answer) => answer === "201 pending")).toHaveLength(5);
    const pending = { connection_id: platform.connectionId, status: "pending" } as const;
    expect(await api.db("delegation_requests").where(pending)).toHaveLength(50);
  });

  test("may have any number of expired requests, which may still be stored as pending", async () => {
    const { requestId, ask } = await alone();
    await copyRequest(api.db, requestId, 60, { expires_at: api.clock.now() });
    expect(await ask()).toBe("201 pending");
  });

  test("does not count the requests of another connection", async () => {
    const { requestId, connectionId, connect, askAs, owner } = await organization();
    await copyRequest(api.db, requestId, 49, { requested_by: null });
    expect(await askAs(owner, connectionId)).toBe("409 request_limit");
    expect(await askAs(owner, await connect())).toBe("201 pending");
  });
});

describe("one requester", () => {
  test("in an organization can have 40 pending requests, so other members can still request", async () => {
    const { requestId, developer, owner, askAs } = await organization();
    await copyRequest(api.db, requestId, 38);
    expect([await askAs(developer), await askAs(developer)]).toEqual(["201 pending", "409 request_limit"]);
    expect(await askAs(owner)).toBe("201 pending");
  });

  test("in a cluster can have 40 pending requests, so people can still request", async () => {
    const { email, client } = await api.person();
    const uid = () => `c1.${randomUUID()}`;
    const [platform, agent] = [uid(), uid()];
    const registered = await api.operator("PUT", `/internal/v1/platforms/${platform}`, {
      account_email: email,
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    });
    const fields = { platform_external_id: platform, agent_external_id: agent };
    const { platform_external_id } = fields;
    await api.operator("PUT", `/internal/v1/agents/${agent}`, {
      platform_external_id,
      name: "bot",
      agent_type: "api_agent",
    });
    const declare = async () =>
      api.operator("PUT", `/internal/v1/delegations/${uid()}`, { ...fields, requested_scope: ["data:read"] });
    const first = await declare();
    await copyRequest(api.db, String(first.body.request_id), 38);
    const answers = [await declare(), await declare()];
    expect(answers.map(({ status }) => status)).toEqual([200, 409]);
    expect(answers.map(errorCode)).toEqual([undefined, "request_limit"]);
    const own = await client.post(PATH, { connection_id: registered.body.connection_id });
    expect(codeOf(own)).toBe("201 pending");
  });
});

test("one namespace can have 50 pending requests of an account, so other namespaces can still request", async () => {
  const { email, client } = await api.person({ organization_name: "Mills" });
  await client.call("PUT", "/v1/service/namespace-bindings/c1/other", { body: {} });
  const uid = () => `c1.${randomUUID()}`;
  /** Declares a platform with an agent in a namespace. Returns a function that declares a Delegation. */
  const declareIn = async (namespace: string) => {
    const [platform, agent] = [uid(), uid()];
    const object = (name: string) => ({ object: { namespace, name: `${name}-${randomUUID()}` } });
    const put = (kind: string, id: string, fields: object) =>
      api.operator("PUT", `/internal/v1/${kind}/${id}`, { ...object(kind), ...fields });
    await put("platforms", platform, {
      account_email: email,
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    });
    const platform_external_id = platform;
    await put("agents", agent, { platform_external_id, name: "bot", agent_type: "api_agent" });
    const fields = { platform_external_id, agent_external_id: agent, requested_scope: ["data:read"] };
    return () => put("delegations", uid(), fields);
  };
  const [inDefault, elsewhere, inOther] = [
    await declareIn("default"),
    await declareIn("default"),
    await declareIn("other"),
  ];
  for (let count = 0; count < 10; count += 1) expect(codeOf(await inDefault())).toBe("200 pending");
  const id = String((await elsewhere()).body.request_id);
  const requests = () => api.db("delegation_requests").where({ request_id: id }).first();
  expect(await requests()).toBeDefined();
  await copyRequest(api.db, id, 38);
  await api
    .db("delegation_requests")
    .where({ connection_id: (await requests())?.connection_id ?? "" })
    .whereNull("external_id")
    .update({ external_id: api.db.raw("'c1.' || gen_random_uuid()") });
  expect(codeOf(await inDefault())).toBe("200 pending");
  expect(codeOf(await inDefault())).toBe("409 request_limit");
  expect(codeOf(await inOther())).toBe("200 pending");
});

describe("an account", () => {
  test("has at most 1,000 pending requests, of which one member can have 800", async () => {
    const { requestId, developer, owner, connect, askAs } = await organization();
    const elsewhere = await connect();
    await copyRequest(api.db, requestId, 798, { connection_id: elsewhere });
    expect([await askAs(developer), await askAs(developer)]).toEqual(["201 pending", "409 request_limit"]);
    await copyRequest(api.db, requestId, 199, { connection_id: elsewhere, requested_by: null });
    expect([await askAs(owner), await askAs(owner)]).toEqual(["201 pending", "409 request_limit"]);
  });
});

describe("the constraints of a request", () => {
  /** A list of constraints with this number of bytes as JSON. */
  const sized = (bytes: number) => {
    const list = (text: string) => [{ type: "x_note", params: { text } }];
    return list("é".repeat((bytes - JSON.stringify(list("")).length) / 2));
  };

  test("have at most 16,384 bytes in a request or approval by a person", async () => {
    const { requestId, ask, person } = await alone();
    const [most, more] = [sized(16_384), sized(16_386)];
    expect([most, more].map((list) => Buffer.byteLength(JSON.stringify(list)))).toEqual([16_384, 16_386]);
    expect(await ask({ constraints: more })).toBe("400 invalid_request");
    expect(await ask({ constraints: most })).toBe("201 pending");
    const approve = (constraints: unknown) =>
      person.client.post(`/v1/service/delegations/requests/${requestId}/approve`, {
        approved_scope: ["data:read"],
        constraints,
      });
    expect(errorCode(await approve(more))).toBe("invalid_request");
    expect((await approve(most)).status).toBe(200);
  });
});
