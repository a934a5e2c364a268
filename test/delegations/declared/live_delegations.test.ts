import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { MAX_STATE_IDS } from "../../../src/operator_calls.ts";
import { type Person, runningApi } from "../../support/api.ts";
import { approve } from "../../support/platform_world.ts";

const WEEK = 7 * 24 * 3600;
const api = runningApi();

type Live = { external_id: string; namespace: string; name: string; status: string };

describe("POST /internal/v1/delegations", () => {
  async function ready() {
    const cluster = `c-${randomUUID()}`;
    const person: Person = await api.person();
    const place = `/v1/service/namespace-bindings/${cluster}/shop`;
    await person.client.call("PUT", place, { body: {} });
    const [platform, agent] = [`${cluster}.${randomUUID()}`, `${cluster}.${randomUUID()}`];
    const put = (kind: string, id: string, name: string, body: object) =>
      api.operator(
        "PUT",
        `/internal/v1/${kind}/${id}`,
        { object: { namespace: "shop", name }, ...body },
        { cluster },
      );
    await put("platforms", platform, "shop", {
      account_email: person.email,
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    });
    await put("agents", agent, "bot", {
      platform_external_id: platform,
      name: "bot",
      agent_type: "robot",
    });
    return {
      person,
      cluster,
      async declare(name: string, fields: object = {}): Promise<{ id: string; requestId: string }> {
        const id = `${cluster}.${randomUUID()}`;
        const answer = await put("delegations", id, name, {
          platform_external_id: platform,
          agent_external_id: agent,
          requested_scope: ["data:read"],
          ...fields,
        });
        return { id, requestId: String(answer.body.request_id) };
      },
      async list(after: string | null = null) {
        const { body } = await api.operator("POST", "/internal/v1/delegations", { after }, { cluster });
        return body as { delegations: Live[]; next: string | null };
      },
    };
  }

  test("lists only pending and active delegations, with the namespaces and names of their objects", async () => {
    const { person, cluster, declare, list } = await ready();
    const waiting = await declare("waiting");
    const active = await declare("active");
    await approve(person, active.requestId, ["data:read"]);
    const denied = await declare("denied");
    await person.client.post(`/v1/service/delegations/requests/${denied.requestId}/deny`);
    const revoked = await declare("revoked");
    await approve(person, revoked.requestId, ["data:read"]);
    await api.operator("POST", `/internal/v1/delegations/${revoked.id}/revoke`, {}, { cluster });
    const { delegations, next } = await list();
    expect(next).toBeNull();
    expect(new Map(delegations.map((each) => [each.external_id, each]))).toEqual(
      new Map([
        [waiting.id, { external_id: waiting.id, namespace: "shop", name: "waiting", status: "pending" }],
        [active.id, { external_id: active.id, namespace: "shop", name: "active", status: "approved" }],
      ]),
    );
  });

  test("lists only delegations of the calling cluster", async () => {
    const [one, other] = [await ready(), await ready()];
    await one.declare("mine");
    expect((await other.list()).delegations).toEqual([]);
  });

  test("omits expired delegations", async () => {
    const { person, declare, list } = await ready();
    const short = await declare("short", { expires_in: 60 });
    await approve(person, short.requestId, ["data:read"]);
    await declare("waiting");
    api.clock.advance(61);
    expect((await list()).delegations.map(({ name }) => name)).toEqual(["waiting"]);
    api.clock.advance(WEEK);
    expect((await list()).delegations).toEqual([]);
  });

  test("returns pages that together contain every delegation", async () => {
    const { person, declare, list } = await ready();
    const { requestId } = await declare("first");
    const row = await api.db("delegation_requests").where({ request_id: requestId }).first();
    const count = MAX_STATE_IDS + 3;
    const rows = Array.from({ length: count - 1 }, (_, n) => ({
      ...row,
      constraints: JSON.stringify(row?.constraints),
      request_id: `req-${person.accountId}-${n}`,
      external_id: `${row?.external_id?.split(".")[0]}.${randomUUID()}`,
    }));
    await api.db.batchInsert<object>("delegation_requests", rows);
    const first = await list();
    expect(first.delegations).toHaveLength(MAX_STATE_IDS);
    const second = await list(first.next);
    expect(second.next).toBeNull();
    const ids = [...first.delegations, ...second.delegations].map(({ external_id }) => external_id);
    expect(new Set(ids).size).toBe(count);
  });
});
