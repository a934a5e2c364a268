import { afterEach, describe, expect, test } from "vitest";
import { VaultUnavailable } from "../../../src/vault/client.ts";
import { runningApi } from "../../support/api.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { approve, errorCode, registerPlatform, requested } from "../../support/platform_world.ts";
import { declaring } from "../declaring.ts";

const api = runningApi();
afterEach(() => {
  api.vault.failure = undefined;
  api.vault.pause = undefined;
});

const EURO = { type: "max_amount", max_amount: 250, currency: "EUR" };
const HOURS = { type: "time_window", start: "08:00", end: "18:00", tz: "UTC" };
const SEPARATE = { constraints: [EURO, HOURS], separate_scope: ["data:read"] };

const waiting = (fields: Record<string, unknown> = {}) =>
  requested(api, { requested_scope: ["payments:send", "data:read"], purpose: "Refunds", ...fields });

const certificatesOf = (agentId: string) => api.db("certificates").where({ agent_id: agentId });

describe("an approval with separate_scope", () => {
  test("creates two linked delegations, and only the first one has the limit on the amount", async () => {
    const { person, requestId } = await waiting();
    const { status, body } = await approve(person, requestId, ["payments:send"], SEPARATE);
    expect(status).toBe(200);
    expect(body.approved_scope).toEqual(["payments:send"]);
    const read = async (id: unknown) =>
      (await person.client.get(`/v1/service/delegations/${String(id)}`)).body as Record<string, unknown>;
    const [limited, other] = [await read(body.cert_id), await read(body.linked_cert_id)];
    expect(limited).toMatchObject({
      request_id: requestId,
      linked_cert_id: body.linked_cert_id,
      cert_json: { scope: ["payments:send"], constraints: [EURO, HOURS] },
    });
    expect(other).toMatchObject({
      linked_cert_id: body.cert_id,
      approved_by: person.email,
      cert_json: { scope: ["data:read"], constraints: [HOURS] },
    });
    const { body: list } = await person.client.get("/v1/service/delegations/requests");
    const items = list.items as Record<string, unknown>[];
    expect(items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ request_id: requestId, linked_cert_id: body.linked_cert_id }),
        expect.objectContaining({
          request_id: other.request_id,
          status: "approved",
          requested_scope: ["data:read"],
          purpose: "Refunds",
          requested_by: person.email,
          decided_by: person.email,
          cert_id: body.linked_cert_id,
          linked_cert_id: body.cert_id,
        }),
      ]),
    );
    expect(items).toHaveLength(2);
  });

  test("warns only once about a constraint that both delegations have", async () => {
    const { person, requestId } = await waiting();
    const paths = { type: "resource_path", resource_id: "a&b" };
    const separate = { ...SEPARATE, constraints: [EURO, paths] };
    const { body } = await approve(person, requestId, ["payments:send"], separate);
    expect(body.warnings).toEqual([expect.objectContaining({ sdk: "go", constraint: 1 })]);
  });

  test("makes the limited delegation the newest, which counts for calls that name no scope", async () => {
    const { person, platform, agentId, requestId } = await waiting();
    const { body } = await approve(person, requestId, ["payments:send"], SEPARATE);
    const keyed = (path: string, fields: object) =>
      api.client().call("POST", path, {
        headers: { "x-service-api-key": platform.apiKey },
        body: fields,
      });
    const present = async (fields: object) => {
      const challenge = await keyed("/v1/service/challenge", {});
      const path = `/v1/service/connections/${platform.connectionId}/agents/${agentId}/present`;
      const answer = await keyed(path, { challenge: challenge.body.challenge, ...fields });
      return answer.body.cert_id;
    };
    expect(await present({})).toBe(body.cert_id);
    expect(await present({ required_scope: "data:read" })).toBe(body.linked_cert_id);
  });

  test("emits an event for each delegation, and records both in the activity list", async () => {
    const { person, platform, requestId } = await waiting();
    const { body } = await approve(person, requestId, ["payments:send"], SEPARATE);
    const approved = (await api.events(platform.connectionId)).filter(
      ({ event }) => event === "delegation.approved",
    );
    expect(approved.map(({ approved_scope }) => approved_scope)).toEqual([["payments:send"], ["data:read"]]);
    const ids = approved.map(({ cert_json }) => (cert_json as { cert_id: string }).cert_id);
    expect(ids).toEqual([body.cert_id, body.linked_cert_id]);
    const { body: acts } = await person.client.get("/v1/service/organization/activity");
    expect((acts.items as unknown[])[0]).toMatchObject({
      operation: "approve_delegation_request",
      target: { cert_id: body.cert_id, linked_cert_id: body.linked_cert_id },
    });
    expect(acts.names).toMatchObject({ [String(body.linked_cert_id)]: "shop-bot" });
  });

  test("stores nothing if the vault signs only the first certificate", async () => {
    const { person, agentId, requestId } = await waiting();
    let signed = 0;
    api.vault.pause = async () => {
      signed += 1;
      if (signed === 2) api.vault.failure = new VaultUnavailable("unreachable", "down");
    };
    const answer = await approve(person, requestId, ["payments:send"], SEPARATE);
    expect([answer.status, errorCode(answer)]).toEqual([503, "vault_unavailable"]);
    expect(signed).toBe(2);
    expect(await certificatesOf(agentId)).toEqual([]);
    const { body } = await person.client.get(`/v1/service/delegations/requests/${requestId}`);
    expect(body).toMatchObject({ status: "pending", linked_cert_id: null });
  });

  test("creates two delegations once, although the call is repeated", async () => {
    const { person, agentId, requestId } = await waiting();
    const call = () => approve(person, requestId, ["payments:send"], SEPARATE);
    const answers = await Promise.all([call(), call()]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(await certificatesOf(agentId)).toHaveLength(2);
  });

  test("needs a second person where the organization requires four eyes", async () => {
    const person = await api.person({ organization_name: "Engines" });
    const platform = await registerPlatform(person, {}, "/v1/service/platforms");
    const fields = { requested_scope: ["payments:send", "data:read"] };
    const { requestId, agentId } = await requested(api, fields, { person, platform });
    await api.db("accounts").where({ account_id: person.accountId }).update({ four_eyes: true });
    const own = await approve(person, requestId, ["payments:send"], SEPARATE);
    expect(errorCode(own)).toBe("four_eyes_required");
    expect(await certificatesOf(agentId)).toEqual([]);
    const approver = actingFor(await addMember(api, person.accountId, "approver"), person.accountId);
    const body = { approved_scope: ["payments:send"], ...SEPARATE };
    const done = await approver.post(`/v1/service/delegations/requests/${requestId}/approve`, body);
    expect(done.status).toBe(200);
    expect(await certificatesOf(agentId)).toHaveLength(2);
  });

  test.each([
    ["an empty list", [], {}, "scope_not_requested"],
    ["a scope that was not requested", ["data:write"], {}, "scope_not_requested"],
    ["a scope of the first delegation", ["payments:send"], {}, "scope_not_requested"],
    ["a wildcard over the first delegation", ["payments:*"], {}, "scope_not_requested"],
    ["no limit on the amount", ["data:read"], { constraints: [HOURS] }, "invalid_constraints"],
    [
      "a limit on how often",
      ["data:read"],
      { constraints: [EURO, { type: "max_rate", count: 1, window_s: 60 }] },
      "invalid_constraints",
    ],
  ])("fails with %s", async (_, separate_scope, fields, code) => {
    const { person, agentId, requestId } = await waiting();
    const given = { ...SEPARATE, separate_scope, ...fields };
    expect(errorCode(await approve(person, requestId, ["payments:send"], given))).toBe(code);
    expect(await certificatesOf(agentId)).toEqual([]);
  });

  test("fails if the request itself limits the amount or how often", async () => {
    for (const requestedLimit of [EURO, { type: "max_rate", count: 1, window_s: 60 }]) {
      const { person, requestId } = await waiting({ constraints: [requestedLimit] });
      const answer = await approve(person, requestId, ["payments:send"], SEPARATE);
      expect(errorCode(answer)).toBe("invalid_constraints");
    }
  });

  test("fails for a request that an object declares", async () => {
    const declare = await declaring(api);
    const { body } = await declare(HOURS);
    const row = await api
      .db("delegation_requests")
      .where({ request_id: String(body.request_id) })
      .first();
    const account = await api.db("accounts").where({ account_id: row!.account_id }).first();
    const client = api.client();
    await client.signIn(account!.email);
    const path = `/v1/service/delegations/requests/${row!.request_id}/approve`;
    const answer = await client.post(path, { approved_scope: ["data:read"], ...SEPARATE });
    expect(errorCode(answer)).toBe("invalid_request");
  });
});
