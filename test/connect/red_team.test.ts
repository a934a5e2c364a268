import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { redirectUriFault } from "../../src/platforms/redirect_uris.ts";
import { type Person, runningApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { copyRequest, createAgent, registerPlatform } from "../support/platform_world.ts";
import { challengeOf, connect, keyed, lend, publisher } from "../support/two_companies.ts";
import { connectScene } from "./scene.ts";

const api = runningApi();
const {
  product,
  parameters,
  verifierOf,
  authorize,
  locationOf,
  requestIdOf,
  begun,
  post,
  approve,
  exchange,
} = connectScene(api);

describe("an evil publisher", () => {
  test("learns no address of a customer's members with the connection's key", async () => {
    const customer = await connect(api, await publisher(api));
    const { certId } = await lend(api, customer);
    const revoke = `/v1/service/delegations/${certId}/revoke`;
    expect((await customer.person.client.post(revoke, {})).status).toBe(200);
    const requested = { connection_id: customer.connectionId };
    await customer.person.client.post("/v1/service/delegations/self-request", requested);
    const headers = { "x-service-api-key": customer.apiKey };
    const { email } = customer.person;
    for (const path of ["delegations", `delegations/${certId}`, "delegations/requests"]) {
      const seen = await api.client().get(`/v1/service/${path}`, { headers });
      expect([path, seen.status, seen.text.includes(email)]).toEqual([path, 200, false]);
      const own = await customer.person.client.get(`/v1/service/${path}`);
      expect([path, own.text.includes(email)]).toEqual([path, true]);
    }
  });

  test("creates only as many keys in a customer's vault as agents are counted, even from a race", async () => {
    const customer = await connect(api, await publisher(api));
    const agentId = await createAgent(api.client(), customer);
    const agent = (await api.db("agents").where({ agent_id: agentId }).first())!;
    const more = Array.from({ length: 98 }, () => ({
      ...agent,
      agent_id: randomBytes(16).toString("hex"),
      vault_key_id: null,
      public_key: JSON.stringify(agent.public_key) as never,
      attestation: null,
    }));
    await api.db.batchInsert("agents", more);
    const path = `/v1/service/connections/${customer.connectionId}/agents`;
    const made = await Promise.all(
      Array.from({ length: 8 }, () => keyed(api, customer, path, { name: "bot", agent_type: "api_agent" })),
    );
    expect(made.filter(({ status }) => status === 201)).toHaveLength(1);
    const ofCustomer = [...api.vault.keys.values()].filter(
      ({ tenant, purpose }) => tenant === customer.person.accountId && purpose === "agent",
    );
    const key = `agents_connection:${customer.connectionId}`;
    const rate = (await api.db("rate_limits").where({ key }).first("points"))!;
    expect(Number(rate.points)).toBeGreaterThanOrEqual(ofCustomer.length);
    await expect.poll(() => ofCustomer.filter(({ disabled }) => !disabled).length).toBe(2);
    expect(
      await api.db("agents").where({ connection_id: customer.connectionId, disabled_at: null }),
    ).toHaveLength(100);
  });

  test("leaves no key that counts for the customer when it deletes an agent, and may repeat a refused call", async () => {
    const customer = await connect(api, await publisher(api));
    const path = `/v1/service/connections/${customer.connectionId}/agents`;
    const agentId = await createAgent(api.client(), customer);
    const headers = { "x-service-api-key": customer.apiKey };
    await api.client().call("DELETE", `${path}/${agentId}`, { headers });
    expect(api.vault.keys.get(agentId)?.disabled).toBe(true);
    const again = () =>
      api
        .client()
        .post(
          path,
          { name: "bot", agent_type: "api_agent" },
          { headers: { ...headers, "idempotency-key": "once" } },
        );
    const first = (await again()).body;
    await api
      .db("agents")
      .where({ agent_id: String(first.agent_id) })
      .update({ disabled_at: api.clock.now() });
    await api.db("idempotency_keys").delete();
    const second = await again();
    expect([second.status, second.body.disabled_at]).toEqual([201, null]);
    expect(second.body.agent_id).not.toBe(first.agent_id);
  });

  test("gets no agents, keys and requests while its platform is suspended, and keeps what is lent", async () => {
    const shop = await publisher(api);
    const customer = await connect(api, shop);
    const { agentId, certId } = await lend(api, customer);
    const path = `/v1/service/connections/${customer.connectionId}`;
    const present = { challenge: await challengeOf(api, customer), required_scope: "data:share" };
    const refused = await keyed(api, customer, `${path}/agents/${agentId}/present`, present);
    const { platformId } = shop.platform;
    await api.db("platforms").where({ platform_id: platformId }).update({ publish_state: "suspended" });
    const calls = await Promise.all([
      keyed(api, customer, `${path}/agents`, { name: "bot", agent_type: "api_agent" }),
      keyed(api, customer, `${path}/delegation-requests`, { agent_id: agentId }),
      keyed(api, customer, "/v1/service/access-requests", {
        subject: { type: "agent", id: agentId },
        denial: { evaluation_id: refused.body.evaluation_id },
        requested_access: { scopes: ["data:share"] },
        context: { purpose: "Share the report" },
      }),
      keyed(api, customer, `${path}/keys`, { role: "agent", agent_id: agentId }),
      customer.person.client.post("/v1/service/delegations/self-request", {
        connection_id: customer.connectionId,
      }),
    ]);
    expect(calls.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403]);
    expect(await api.db("certificates").where({ cert_id: certId }).pluck("status")).toEqual(["approved"]);
  });

  test("uses up no limit of the questions that the customer's own agents ask", async () => {
    const customer = await connect(api, await publisher(api));
    const ask = async (at: { connectionId: string; apiKey: string }, scope: string) => {
      const agentId = await createAgent(api.client(), at);
      const present = `/v1/service/connections/${at.connectionId}/agents/${agentId}/present`;
      const challenge = await challengeOf(api, at);
      const { body } = await keyed(api, at, present, { challenge, required_scope: scope });
      return keyed(api, at, "/v1/service/access-requests", {
        subject: { type: "agent", id: agentId },
        denial: { evaluation_id: body.evaluation_id },
        requested_access: { scopes: [scope] },
        context: { purpose: "Read the report" },
      });
    };
    const { body } = await ask(customer, "data:read");
    const { refusal, ...task } = (await api
      .db("delegation_requests")
      .where({ request_id: (body.task as { id: string }).id })
      .first())!;
    await copyRequest(api.db, task.request_id, 199, { refusal: JSON.stringify(refusal) as never });
    const own = await registerPlatform(customer.person);
    expect((await ask(own, "data:read")).status).toBe(202);
  });

  test("has no redirect URI whose host is more than a name in the page's policy", () => {
    for (const host of ["*", "*.evil.example", "a;sandbox", "a,b.example", "evil.example."]) {
      expect(redirectUriFault(`https://${host}/`, null), host).toMatch(/host/);
    }
    expect(redirectUriFault("https://a;b.shop.example/", "shop.example")).toMatch(/host/);
  });
});

describe("an evil third person", () => {
  test("leads nobody but the publisher's members to a form that connects a draft", async () => {
    const draft = await product({ isDraft: true });
    const { requestId } = await begun(draft);
    const seen = async ({ client }: Person) => {
      const { body } = await client.get(`/v1/service/connect-requests/${requestId}`);
      const page = await client.get(`/console/connect/${requestId}`);
      return [body.permission, page.status, page.text.includes('name="form" value="connect"')];
    };
    expect(await seen(await api.person())).toEqual(["read", 200, false]);
    const member = await addMember(api, draft.owner.accountId, "auditor");
    expect(await seen(member)).toEqual(["connect", 200, true]);
  });

  test("cannot remove the product's name for the account from a request that it pushed", async () => {
    const shop = await product();
    const verifier = verifierOf();
    const label = "Mallory's shop";
    const pushed = await post("par", {
      ...parameters(shop, verifier),
      client_secret: shop.secret,
      account_label: label,
    });
    const page = await authorize({
      client_id: shop.platformId,
      request_uri: String(pushed.body.request_uri),
    });
    const texts = [String(pushed.body.request_uri).split(":").at(-1) ?? "", requestIdOf(page)].map((text) =>
      Buffer.from(text.split(".")[0] ?? "", "base64url").toString("latin1"),
    );
    const stolen = texts.flatMap((text) => /"challenge":"([\w-]{43})"/.exec(text)?.[1] ?? [])[0];
    const bare = { ...parameters(shop, verifierOf()), ...(stolen && { code_challenge: stolen }) };
    const requestId = requestIdOf(await authorize(bare));
    const victim = await api.person();
    const back = new URL(await approve(victim, requestId));
    const answer = await exchange(shop, { code: back.searchParams.get("code") ?? "", verifier });
    expect([answer.status, answer.body.error]).toEqual([400, "invalid_grant"]);
    expect(locationOf(page)).toContain("/console/connect/");
  });
});
