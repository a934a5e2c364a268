import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import type { Check } from "../../../src/protocol/verification/evidence.ts";
import { setCredit } from "../../support/account_rows.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { actingFor, addMember } from "../../support/members.ts";
import { approve, createAgent, selfRequest } from "../../support/platform_world.ts";
import { type Application, certify, decisionsOf, errorOf, proofApi } from "../application.ts";

const world = proofApi();
const { application } = world;
const shell = promisify(execFile);

type Made = {
  operation: string;
  status: number;
  url: string;
  body: unknown;
  answer: Record<string, unknown>;
};

const pathOf = ({ platform, agentId }: Application) =>
  `/v1/service/connections/${platform.connectionId}/agents/${agentId}/try`;

const attempt = (app: Application, fields: Record<string, unknown> = {}, headers = {}) =>
  app.person.client.post(pathOf(app), { required_scope: "data:read", ...fields }, { headers });

const callsOf = ({ body }: HttpAnswer) => body.calls as Made[];
const failedOf = ({ body }: HttpAnswer) =>
  (body.checks as Check[]).filter(({ outcome }) => outcome === "failed").map(({ name }) => name);
const decided = ({ body }: HttpAnswer) => `${body.decision} ${body.decision_reason}`;

async function balanceOf({ person }: Application): Promise<number> {
  const row = await world.api.db("balances").where({ account_id: person.accountId }).first();
  return row?.balance_micro_usd ?? Number.NaN;
}

async function constrained(...constraints: Record<string, unknown>[]): Promise<Application> {
  const app = await application([]);
  const certId = await certify(app, ["data:read"], { requested_scope: ["data:read"], constraints });
  return { ...app, certId };
}

describe("POST …/agents/{agent_id}/try", () => {
  test("makes the three calls of an application, and records and charges the decision like any other decision", async () => {
    const app = await application();
    const before = await balanceOf(app);
    const answer = await attempt(app, { cert_id: app.certId });
    expect([answer.status, decided(answer)]).toEqual([200, "allow authorized"]);
    expect(failedOf(answer)).toEqual([]);
    const [challenge, present, verify] = callsOf(answer);
    const root = "http://127.0.0.1/v1/service";
    expect([challenge, present, verify].map((call) => [call?.operation, call?.status, call?.url])).toEqual([
      ["create_challenge", 200, `${root}/challenge`],
      [
        "present_proof",
        200,
        `${root}/connections/${app.platform.connectionId}/agents/${app.agentId}/present`,
      ],
      ["verify_proof", 200, `${root}/verify`],
    ]);
    expect(present?.body).toEqual({ challenge: challenge?.answer.challenge, cert_id: app.certId });
    expect(verify?.body).toEqual({
      proof_ref: present?.answer.proof_ref,
      required_scope: "data:read",
      explain: true,
    });
    expect(await balanceOf(app)).toBe(before - 2_000);
    const events = await world.api.db("audit_events").where({ account_id: app.person.accountId });
    expect(events.map(({ event_type }) => event_type).sort()).toEqual(["proof.presented", "proof.verified"]);
    const { receipt_id } = (verify as Made).answer.receipt as { receipt_id: string };
    const receipt = await app.person.client.get(`/v1/service/receipts/${receipt_id}`);
    expect(receipt.body.receipt).toEqual(verify?.answer.receipt);
  });

  test("returns the same members for each call as the calls with an API key", async () => {
    const app = await application();
    const [challenge, present, verify] = callsOf(await attempt(app, { cert_id: app.certId }));
    const own = [await app.post("/v1/service/challenge"), await app.present({ cert_id: app.certId })];
    own.push(await app.verify(own[1]?.body.proof_bundle, { explain: true }));
    const members = (answer: object) => Object.keys(answer).sort();
    expect([challenge, present, verify].map((call) => members(call?.answer ?? {}))).toEqual(
      own.map(({ body }) => members(body)),
    );
  });

  test("denies, charges and explains a scope that was not granted", async () => {
    const app = await application(["data:read"]);
    const before = await balanceOf(app);
    const answer = await attempt(app, { cert_id: app.certId, required_scope: "payments:send" });
    expect([decided(answer), failedOf(answer)]).toEqual(["deny not_delegated", ["required_scope"]]);
    expect(await balanceOf(app)).toBe(before - 2_000);
  });

  test("evaluates constraints against the given context", async () => {
    const app = await constrained({ type: "max_amount", max_amount: 10, currency: "EUR" });
    const of = async (context?: object) => {
      const answer = await attempt(app, context && { context });
      return [decided(answer), ...failedOf(answer)];
    };
    expect(await of({ amount: 10, currency: "EUR" })).toEqual(["allow authorized"]);
    expect(await of({ amount: 10.01, currency: "EUR" })).toEqual(["deny constraint_denied", "constraints"]);
    expect(await of()).toEqual(["deny constraint_unverifiable", "constraints"]);
  });

  test("counts toward a certificate's rate limit", async () => {
    const app = await constrained({ type: "max_rate", count: 2, window_s: 60 });
    const answers = [await attempt(app), await attempt(app), await attempt(app)].map(decided);
    expect(answers).toEqual(["allow authorized", "allow authorized", "deny constraint_denied"]);
    expect((await app.verify(await app.proof())).body.decision_reason).toBe("constraint_denied");
  });

  test("decides and charges once for one idempotency key", async () => {
    const app = await application();
    const headers = { "idempotency-key": "once" };
    const [first, second] = [await attempt(app, {}, headers), await attempt(app, {}, headers)];
    expect(second.body).toEqual(first.body);
    expect(await decisionsOf(world, app)).toBe(1);
  });

  test("leaves no proof that could be used again", async () => {
    const app = await application();
    const [, present] = callsOf(await attempt(app));
    expect(errorOf(await app.verify(present?.answer.proof_bundle))).toBe("400 invalid_challenge");
  });

  test("adds an activity entry with the person and the tried scope to the organization", async () => {
    const owner = await world.api.person({ organization_name: "Engines" });
    const app = await application(["data:read"], owner);
    const developer = await addMember(world.api, owner.accountId, "developer");
    const body = { required_scope: "data:read", cert_id: app.certId };
    expect((await actingFor(developer, owner.accountId).post(pathOf(app), body)).status).toBe(200);
    const acts = await world.api.db("organization_activity").where({ organization_id: owner.accountId });
    expect(acts.filter(({ operation }) => operation === "try_proof")).toMatchObject([
      {
        target: { ...body, connection_id: app.platform.connectionId, agent_id: app.agentId },
        actor_email: developer.email,
        status: "done",
      },
    ]);
  });
});

describe("the shell lines of a trial", () => {
  async function pasted(answer: HttpAnswer, apiKey: string): Promise<Record<string, unknown>> {
    const lines = answer.body.curl as string[];
    expect(lines[0]).toMatch(/^API_KEY='[^']*'$/);
    const script = [`API_KEY='${apiKey}'`, ...lines.slice(1)].join("\n");
    const { stdout } = await shell("sh", ["-c", script.replaceAll("http://127.0.0.1", world.api.url)]);
    return JSON.parse(stdout) as Record<string, unknown>;
  }

  test.each([
    ["data:read", "allow"],
    ["payments:send", "deny"],
  ])("request the scope %s and get the same answer as the trial: %s", async (required_scope, decision) => {
    const app = await application(["data:read"]);
    const answer = await attempt(app, { cert_id: app.certId, required_scope });
    const verified = callsOf(answer)[2]?.answer ?? {};
    const again = await pasted(answer, app.platform.apiKey);
    expect(again.decision).toBe(decision);
    for (const name of ["decision", "decision_reason", "cert_id", "agent_id", "granted_scope", "checks"]) {
      expect(again[name]).toEqual(verified[name]);
    }
  });

  test("quote characters that a shell would interpret, and contain no API key", async () => {
    const resource = 'it\'s "quoted" $HOME `id` $(id) \\ %s & é 🙂 ; #';
    const app = await constrained({ type: "resource_path", resource_id: resource, path_prefix: "/a b" });
    const of = async (context: object) => {
      const answer = await attempt(app, { context });
      expect(answer.text).not.toContain(app.platform.apiKey);
      return [decided(answer), decided({ body: await pasted(answer, app.platform.apiKey) } as HttpAnswer)];
    };
    const allowed = "allow authorized";
    expect(await of({ resource_id: resource, path: "/a b/'c'" })).toEqual([allowed, allowed]);
    const denied = "deny constraint_denied";
    expect(await of({ resource_id: `${resource}'`, path: "/a b" })).toEqual([denied, denied]);
  });
});

describe("POST …/agents/{agent_id}/try without a decision", () => {
  const ended = async (app: Application, fields = {}) => {
    const before = await balanceOf(app);
    const answer = await attempt(app, { cert_id: app.certId, ...fields });
    expect(await balanceOf(app)).toBe(before);
    expect(answer.body).toMatchObject({ decision: null, decision_reason: null });
    const outcomes = (answer.body.checks as Check[]).map(({ outcome }) => outcome);
    expect(new Set(outcomes)).toEqual(new Set(["not_reached"]));
    return callsOf(answer).map(({ status, answer: body }) =>
      status === 200 ? "200" : errorOf({ ...answer, status, body }),
    );
  };

  test("stops without charge if the delegation is revoked or expired", async () => {
    const revoked = await application();
    await revoked.person.client.post(`/v1/service/delegations/${revoked.certId}/revoke`);
    expect(await ended(revoked)).toEqual(["200", "404 no_active_delegation"]);
    const over = await application([]);
    const certId = await certify(over, ["data:read"], { expires_in: 60 });
    world.api.clock.advance(61);
    expect(await ended({ ...over, certId })).toEqual(["200", "404 no_active_delegation"]);
  });

  test("stops without charge if the agent has no delegation", async () => {
    const app = await application();
    const second = await createAgent(world.api.client(), app.platform);
    expect(await ended({ ...app, agentId: second }, { cert_id: undefined })).toEqual([
      "200",
      "404 no_active_delegation",
    ]);
  });

  test("stops without charge if there is no credit, and decides once there is credit again", async () => {
    const app = await application();
    const own = app.person.accountId;
    await setCredit(world.api.db, own, 1_999);
    expect(await ended(app)).toEqual(["200", "200", "402 credits_exhausted"]);
    await setCredit(world.api.db, own, 2_000);
    expect(decided(await attempt(app))).toBe("allow authorized");
  });
});

describe("POST …/agents/{agent_id}/try refuses", () => {
  test("connections and agents that are unknown or belong to a different account", async () => {
    const [app, stranger] = [await application(), await application()];
    const mixed = [
      stranger,
      { ...app, platform: stranger.platform },
      { ...app, agentId: stranger.agentId },
      { ...app, agentId: "none" },
      { ...app, platform: { ...app.platform, connectionId: "none" } },
    ];
    for (const target of mixed) {
      const answer = await app.person.client.post(pathOf(target), { required_scope: "data:read" });
      expect(errorOf(answer)).toBe("404 not_found");
    }
    expect(await decisionsOf(world, stranger)).toBe(0);
  });

  test("an agent of a different platform of the same organization", async () => {
    const owner = await world.api.person({ organization_name: "Engines" });
    const [one, other] = [await application(["data:read"], owner), await application(["data:read"], owner)];
    expect(errorOf(await attempt({ ...one, agentId: other.agentId }))).toBe("404 not_found");
  });

  test("a certificate of a different agent of the platform, or of a different account", async () => {
    const [app, stranger] = [await application(), await application()];
    const second = await createAgent(world.api.client(), app.platform);
    const request = await selfRequest(app.person, app.platform.connectionId, { agent_id: second });
    const { body } = await approve(app.person, request, ["data:read"]);
    for (const cert_id of [String(body.cert_id), stranger.certId, "cert-none"]) {
      expect(errorOf(await attempt(app, { cert_id }))).toBe("404 not_found");
    }
    expect(await decisionsOf(world, app)).toBe(0);
  });

  test("a removed platform, and a deleted agent, which has no certificate to present", async () => {
    const app = await application();
    const agent = `/v1/service/connections/${app.platform.connectionId}/agents/${app.agentId}`;
    expect((await app.person.client.call("DELETE", agent)).status).toBe(200);
    expect(callsOf(await attempt(app)).map(({ status }) => status)).toEqual([200, 404]);
    const path = `/v1/service/connections/${app.platform.connectionId}`;
    expect((await app.person.client.call("DELETE", path)).status).toBe(200);
    expect(errorOf(await attempt(app))).toBe("404 not_found");
  });

  test("an agent whose key is not in the vault, with an error that gives this reason", async () => {
    const app = await application();
    await world.api.db("agents").where({ agent_id: app.agentId }).update({ vault_key_id: null });
    const answer = await attempt(app);
    expect(errorOf(answer)).toBe("403 not_available");
    expect(answer.text).toContain("not in the vault");
  });

  test.each(["payments", "data:*", "custom:x"])("the scope %s", async (required_scope) => {
    const app = await application();
    expect(errorOf(await attempt(app, { required_scope }))).toBe("400 invalid_scope");
    expect(await decisionsOf(world, app)).toBe(0);
  });

  test("a member whose role does not permit API keys", async () => {
    const owner = await world.api.person({ organization_name: "Engines" });
    const app = await application(["data:read"], owner);
    for (const role of ["approver", "auditor"] as const) {
      const member = await addMember(world.api, owner.accountId, role);
      const answer = await actingFor(member, owner.accountId).post(pathOf(app), {
        required_scope: "data:read",
      });
      expect(errorOf(answer)).toBe("403 forbidden");
    }
    expect(await decisionsOf(world, app)).toBe(0);
  });

  test("an API key, and a session without its CSRF token", async () => {
    const app = await application();
    expect(errorOf(await app.post(pathOf(app), { required_scope: "data:read" }))).toBe("401 auth_required");
    const bare = await app.person.client.post(pathOf(app), { required_scope: "data:read" }, { csrf: false });
    expect(errorOf(bare)).toBe("403 csrf_failed");
    expect(await decisionsOf(world, app)).toBe(0);
  });
});

describe("a connection's rate limit for proofs", () => {
  const rated = proofApi({ config: { PRESENT_PER_MINUTE: 3 } });

  test("counts people's trials and the application's calls of `present` together", async () => {
    const [app, other] = [await rated.application(), await rated.application()];
    expect((await app.present()).status).toBe(200);
    expect([(await attempt(app)).status, (await attempt(app)).status]).toEqual([200, 200]);
    const refused = await attempt(app);
    expect(errorOf(refused)).toBe("429 rate_limited");
    expect(refused.headers.get("retry-after")).toBe("20");
    expect(errorOf(await app.present())).toBe("429 rate_limited");
    expect(await decisionsOf(rated, app)).toBe(2);
    const strangers = await app.person.client.post(pathOf(other), { required_scope: "data:read" });
    expect(errorOf(strangers)).toBe("404 not_found");
    expect([(await attempt(other)).status, (await attempt(other)).status]).toEqual([200, 200]);
    expect((await other.present()).status).toBe(200);
  });
});
