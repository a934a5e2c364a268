import { randomUUID } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { type Person, runningApi } from "../../support/api.ts";
import type { FakeObject } from "../../support/fake_cluster.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { errorCode } from "../../support/platform_world.ts";

const ANN = "ann@example.test";
const OBJECT = { namespace: "default", name: "help" };
const CREATED = "2026-01-01T00:00:00Z";
const api = runningApi();

describe("a decision in a cluster", () => {
  let person: Person;
  let id: string;
  let live: FakeObject;

  beforeEach(async () => {
    api.clusters.delegations.clear();
    api.clusters.missing.clear();
    api.clusters.isAway = false;
    api.clusters.policiesSince = "2025-01-01T00:00:00Z";
    person = await api.person();
    await person.client.post("/v1/service/cluster-approvers", { cluster: "c1", username: ANN });
    const uid = randomUUID();
    id = `c1.${uid}`;
    const [platform, agent] = [`c1.${randomUUID()}`, `c1.${randomUUID()}`];
    const object = (name: string) => ({ namespace: "default", name });
    await must(
      api.operator("PUT", `/internal/v1/platforms/${platform}`, {
        object: object("shop"),
        account_email: person.email,
        name: "Shop",
        surface_type: "agentic_api",
        default_allowed_scopes: ["data:read", "payments:send"],
      }),
    );
    await must(
      api.operator("PUT", `/internal/v1/agents/${agent}`, {
        object: object("bot"),
        platform_external_id: platform,
        name: "bot",
        agent_type: "robot",
      }),
    );
    await must(
      api.operator("PUT", `/internal/v1/delegations/${id}`, {
        object: OBJECT,
        platform_external_id: platform,
        agent_external_id: agent,
        requested_scope: ["data:read", "payments:send"],
        expires_in: 86_400,
      }),
    );
    live = {
      metadata: { uid, generation: 1, creationTimestamp: CREATED },
      spec: {
        platformRef: { name: "shop" },
        agentRef: { name: "bot" },
        scopes: ["payments:send", "data:read"],
        ttl: "24h",
        requestedBy: "ed@example.test",
      },
      status: {
        approval: {
          decision: "Approved",
          approvedScopes: ["data:read"],
          approver: { username: ANN },
          observedGeneration: 1,
        },
      },
    };
    api.clusters.delegations.set("default/help", live);
  });

  async function must(work: Promise<HttpAnswer>): Promise<HttpAnswer> {
    const answer = await work;
    if (answer.status !== 200) throw new Error(answer.text);
    return answer;
  }
  const decide = (object: object = OBJECT, options?: { cluster: string }) =>
    api.operator("POST", `/internal/v1/delegations/${id}/decision`, { object }, options);
  const change = (changes: object) => Object.assign(live.status?.approval ?? {}, changes);
  const stored = async () => api.db("delegation_requests").where({ external_id: id }).first();

  test("issues exactly what the person approved, and records the person, the cluster and the policies", async () => {
    const answer = await decide();
    expect(answer).toMatchObject({
      status: 200,
      body: { status: "approved", approved_scope: ["data:read"], decided_by: ANN },
    });
    expect(await stored()).toMatchObject({
      decided_by: null,
      decided_cluster: "c1",
      decided_user: ANN,
      decided_policies: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const certificate = await api
      .db("certificates")
      .where({ cert_id: String(answer.body.cert_id) })
      .first();
    expect(certificate).toMatchObject({ approval_channel: "kubernetes", approved_by: person.accountId });
    const shown = await person.client.get(`/v1/service/delegations/requests/${answer.body.request_id}`);
    expect(shown.body).toMatchObject({
      status: "approved",
      decided_by: ANN,
      decided_in_cluster: "c1",
    });
  });

  test("creates one certificate, however many calls report the decision", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => decide()));
    expect(new Set(answers.map(({ body }) => body.cert_id)).size).toBe(1);
    expect((await decide()).body.cert_id).toBe(answers[0]?.body.cert_id);
  });

  test("denies the request with the person's message", async () => {
    change({ decision: "Denied", approvedScopes: [], message: "not this month" });
    expect(await decide()).toMatchObject({
      status: 200,
      body: { status: "denied", reason: "not this month", decided_by: ANN, cert_id: null },
    });
  });

  test("leaves the request pending until the decision appears in the Delegation's status", async () => {
    delete live.status;
    expect(await decide()).toMatchObject({ status: 200, body: { status: "pending" } });
  });

  test("changes nothing if a signed-in person has already decided the request", async () => {
    const { request_id } = (await decide({ ...OBJECT })).body;
    change({ decision: "Denied", approvedScopes: [] });
    expect((await decide()).body).toMatchObject({ request_id, status: "approved" });
  });

  test("returns a recorded decision even while the cluster is unavailable, but only to the cluster's own operator", async () => {
    await decide();
    api.clusters.isAway = true;
    expect(await decide()).toMatchObject({ status: 200, body: { status: "approved" } });
    expect(errorCode(await decide(OBJECT, { cluster: "c2" }))).toBe("not_found");
  });

  describe("does not count", () => {
    /** Decides in the cluster, and returns the error code. Expects that the request stays pending. */
    async function refused(): Promise<unknown> {
      const answer = await decide();
      expect((await stored())?.status).toBe("pending");
      return errorCode(answer);
    }

    test("from a user who is not linked to the account, or is linked only in a different cluster", async () => {
      change({ approver: { username: "bob@example.test" } });
      expect(await refused()).toBe("approver_not_linked");
      const elsewhere = { cluster: "c2", username: "bob@example.test" };
      await person.client.post("/v1/service/cluster-approvers", elsewhere);
      expect(await refused()).toBe("approver_not_linked");
    });

    test("from a user who is linked to a different account", async () => {
      const stranger = await api.person();
      const bob = { cluster: "c1", username: "bob@example.test" };
      await stranger.client.post("/v1/service/cluster-approvers", bob);
      change({ approver: { username: bob.username } });
      expect(await refused()).toBe("approver_not_linked");
    });

    test("from a service account, even if it is linked", async () => {
      const username = "system:serviceaccount:shop:bot";
      await api.db("cluster_approvers").insert({
        approver_id: randomUUID(),
        account_id: person.accountId,
        cluster_id: "c1",
        username,
        linked_at: new Date(),
      });
      change({ approver: { username } });
      expect(await refused()).toBe("approver_not_linked");
    });

    test("from the requester, or from anyone if four eyes are required and no requester is known", async () => {
      Object.assign(live.spec, { requestedBy: ANN });
      expect(await refused()).toBe("four_eyes_required");
      delete live.spec.requestedBy;
      const path = "/v1/service/namespace-bindings/c1/default";
      await person.client.call("PUT", path, { body: { four_eyes: true } });
      expect(await refused()).toBe("four_eyes_required");
      live.spec.requestedBy = "ed@example.test";
      expect((await decide()).body.status).toBe("approved");
    });

    test("from another cluster user of the requester's member", async () => {
      const path = "/v1/service/cluster-approvers";
      const link = async (username: string, cluster = "c1") =>
        String((await person.client.post(path, { cluster, username })).body.approver_id);
      const approverId = await link("ed@example.test");
      expect(await refused()).toBe("four_eyes_required");
      const binding = "/v1/service/namespace-bindings/c1/default";
      await person.client.call("PUT", binding, { body: { four_eyes: true } });
      expect(await refused()).toBe("four_eyes_required");
      await person.client.call("DELETE", `${path}/${approverId}`);
      await link("ed@example.test", "c2");
      expect((await decide()).body.status).toBe("approved");
    });

    test("if it is wider than the request, or than the scopes that the owner now accepts for the namespace", async () => {
      change({ approvedScopes: ["data:read", "data:share"] });
      expect(await refused()).toBe("scope_not_requested");
      change({ approvedScopes: ["payments:send"] });
      const path = "/v1/service/namespace-bindings/c1/default";
      await person.client.call("PUT", path, { body: { ceiling: ["data:*"] } });
      expect(await refused()).toBe("ceiling_exceeded");
    });

    test("once the owner no longer accepts the namespace", async () => {
      await person.client.call("DELETE", "/v1/service/namespace-bindings/c1/default");
      expect(await refused()).toBe("namespace_not_bound");
    });

    test.each<[string, () => Promise<unknown>, string]>([
      [
        "the owner unlinked the approver",
        async () => {
          const path = "/v1/service/cluster-approvers";
          const { body } = await person.client.get(path);
          const [approver] = body.cluster_approvers as { approver_id: string }[];
          await must(person.client.call("DELETE", `${path}/${approver?.approver_id}`));
        },
        "approver_not_linked",
      ],
      [
        "the owner withdrew the acceptance of the namespace",
        () => must(person.client.call("DELETE", "/v1/service/namespace-bindings/c1/default")),
        "namespace_not_bound",
      ],
      [
        "the owner narrowed the namespace",
        () => {
          const body = { ceiling: ["payments:*"] };
          return must(person.client.call("PUT", "/v1/service/namespace-bindings/c1/default", { body }));
        },
        "ceiling_exceeded",
      ],
    ])("if %s while the vault was signing", async (_, meanwhile, code) => {
      let isFirst = true;
      api.vault.pause = async () => {
        if (isFirst) await meanwhile();
        isFirst = false;
      };
      expect(await refused()).toBe(code);
      api.vault.pause = undefined;
      expect(await api.db("certificates").where({ account_id: person.accountId })).toEqual([]);
    });

    test.each(["deputize-approval", "deputize-status", "deputize-objects"])(
      "while the policy %s is missing",
      async (name) => {
        api.clusters.missing.add(name);
        expect(await refused()).toBe("approval_policy_missing");
      },
    );

    test("for a Delegation older than the policies, because no policy guarded the decision", async () => {
      api.clusters.policiesSince = "2026-01-01T00:00:00Z";
      expect(await refused()).toBe("approval_policy_missing");
      live.metadata.creationTimestamp = "2026-01-01T00:00:09Z";
      expect(await refused()).toBe("approval_policy_missing");
      live.metadata.creationTimestamp = "2026-01-01T00:00:10Z";
      expect((await decide()).body.status).toBe("approved");
    });

    test.each<[string, (object: FakeObject) => void]>([
      ["other scopes", ({ spec }) => Object.assign(spec, { scopes: ["data:read"] })],
      ["another agent", ({ spec }) => Object.assign(spec, { agentRef: { name: "other" } })],
      ["another platform", ({ spec }) => Object.assign(spec, { platformRef: { name: "other" } })],
      ["another ttl", ({ spec }) => Object.assign(spec, { ttl: "25h" })],
      ["an expiry", ({ spec }) => Object.assign(spec, { expiresAt: "2030-01-01T00:00:00Z" })],
      [
        "constraints",
        ({ spec }) => Object.assign(spec, { constraints: [{ type: "max_rate", count: 1, window_s: 60 }] }),
      ],
      ["a revocation", ({ spec }) => Object.assign(spec, { revoked: true })],
      ["a deletion", ({ metadata }) => Object.assign(metadata, { deletionTimestamp: CREATED })],
    ])("for an object with %s", async (_, alter) => {
      alter(live);
      expect(await refused()).toBe("external_conflict");
    });

    test("for a generation of the object that does not exist yet", async () => {
      change({ observedGeneration: 2 });
      expect(await refused()).toBe("external_conflict");
    });

    test("for an object with a different uid or a different name, or without an object", async () => {
      live.metadata.uid = randomUUID();
      expect(await refused()).toBe("not_found");
      expect(errorCode(await decide({ namespace: "default", name: "none" }))).toBe("not_found");
      expect(errorCode(await decide({ namespace: "other", name: "help" }))).toBe("not_found");
    });

    test("for an object that is not in the namespace of the filed request", async () => {
      await person.client.call("PUT", "/v1/service/namespace-bindings/c1/other", { body: {} });
      api.clusters.delegations.set("other/help", live);
      expect(errorCode(await decide({ namespace: "other", name: "help" }))).toBe("external_conflict");
      expect((await stored())?.status).toBe("pending");
    });

    test("while the cluster does not answer", async () => {
      api.clusters.isAway = true;
      expect(await refused()).toBe("unavailable");
      api.clusters.isAway = "policies";
      expect(await refused()).toBe("unavailable");
    });

    test("if the operator of a different cluster reports it", async () => {
      expect(errorCode(await decide(OBJECT, { cluster: "c2" }))).toBe("not_found");
      expect((await stored())?.status).toBe("pending");
    });
  });
});
