import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { contextOf } from "../../src/proofs/operation.ts";
import { acceptPrincipal } from "../support/accepted_principals.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import {
  createAgent,
  delegated,
  errorCode,
  registerPlatform,
  type TestPlatform,
} from "../support/platform_world.ts";
import { until } from "../support/process.ts";
import {
  type Customer,
  challengeOf,
  connect,
  endFor,
  keyed,
  type Lent,
  lend,
  outcomeOf,
  type Publisher,
  proofOver,
  publisher,
  verifyAt,
} from "../support/two_companies.ts";
import { BOUND_SCOPE, operationOf } from "./bound_operations.ts";
import { formerVerdict, isFoundByFormer } from "./former_verdict.ts";

const SCOPES = ["data:read", BOUND_SCOPE];

let api: TestApi;
let shop: Publisher;
let customer: Customer;
/** The shop's agent for the customer. */
let lent: Lent;
/** An application of the customer itself. */
let own: Awaited<ReturnType<typeof ownApplication>>;

beforeAll(async () => {
  api = await startApi();
  shop = await publisher(api);
  customer = await connect(api, shop, { scopes: SCOPES });
  lent = await lend(api, customer, { scope: SCOPES });
  own = await ownApplication(customer.person);
});
afterAll(() => api.stop());

const creditOf = async ({ accountId }: Person) =>
  (await api.db("balances").where({ account_id: accountId }).first())!.balance_micro_usd;
const rowsOf = ({ accountId }: Person, eventId: string) =>
  api.db("audit_events").where({ account_id: accountId, event_id: eventId });
const presentPath = ({ connectionId }: { connectionId: string }, agentId: string) =>
  `/v1/service/connections/${connectionId}/agents/${agentId}/present`;

/** An application of the account itself, with an agent and a certificate. */
async function ownApplication(person: Person, given?: TestPlatform) {
  const platform = given ?? (await registerPlatform(person));
  const made = await delegated(api, SCOPES, { person, platform });
  return { ...made, agent: { agentId: made.agentId, certId: made.certId } };
}

describe("a decision at a customer connection", () => {
  test("allows by the customer's root, at the publisher's cost, and enters both histories", async () => {
    const before = [await creditOf(shop.person), await creditOf(customer.person)];
    const { body: challenged } = await keyed(api, customer, "/v1/service/challenge");
    const presented = await keyed(api, customer, presentPath(customer, lent.agentId), challenged);
    expect(presented.status).toBe(200);
    const { proof_ref } = presented.body;
    const question = { proof_ref, required_scope: "data:read" };
    const answer = await keyed(api, customer, "/v1/service/verify", question);
    expect(outcomeOf(answer)).toBe("allow authorized");
    const after = [await creditOf(shop.person), await creditOf(customer.person)];
    expect(after[0]).toBeLessThan(before[0]!);
    expect(after[1]).toBe(before[1]);
    const { receipt_id } = answer.body.receipt as { receipt_id: string };
    const [atShop] = await rowsOf(shop.person, receipt_id);
    const [atCustomer] = await rowsOf(customer.person, receipt_id);
    expect(atShop).toMatchObject({ decision: "allow", verifier_account_id: null });
    expect(atCustomer).toMatchObject({
      decision: "allow",
      receipt: null,
      verifier_account_id: shop.person.accountId,
      verifier_platform_name: "Shop",
      verifier_organization_name: "Shop Ltd",
    });
    expect(atCustomer!.receipt_hash).toEqual(atShop!.receipt_hash);
    for (const { client } of [shop.person, customer.person]) {
      const { body } = await client.get("/v1/service/audit/personal?limit=100");
      const events = body.events as Record<string, unknown>[];
      expect(events.filter(({ event_type }) => event_type === "proof.presented")).toHaveLength(1);
      const shown = await client.get(`/v1/service/audit/personal/${receipt_id}`);
      expect(shown.body).toMatchObject({ agent_name: "shop-bot" });
    }
  });

  test("denies the publisher's own root and a third account's root, whatever the connection accepts", async () => {
    const theirs = await ownApplication(shop.person, shop.platform);
    const third = await ownApplication(await api.person());
    for (const { person, agent } of [theirs, third]) {
      await api.db("accepted_principals").insert({
        ...{
          account_id: shop.person.accountId,
          connection_id: customer.connectionId,
          human_id: person.humanId,
        },
        ...{ scopes: ["data:read"], granted_scope: ["data:read"], created_at: api.clock.now() },
      });
      expect(outcomeOf(await verifyAt(api, customer, agent))).toBe("deny principal_not_accepted");
      const path = `/v1/service/ext-auth/data:read`;
      const bundle = await proofOver(api, await challengeOf(api, customer), agent);
      const proof = Buffer.from(JSON.stringify(bundle)).toString("base64");
      const hook = await api.client().call("POST", path, {
        headers: { "x-service-api-key": customer.apiKey, "x-service-proof": proof },
        csrf: false,
      });
      expect(hook.status).toBe(403);
    }
  });

  test("denies another customer of the same platform", async () => {
    const other = await connect(api, shop);
    expect(outcomeOf(await verifyAt(api, other, lent))).toBe("deny principal_not_accepted");
  });

  test("denies the customer's other agents as not delegated, and leaves their operations undecided", async () => {
    const other = await connect(api, await publisher(api), { person: customer.person, scopes: SCOPES });
    for (const agent of [own.agent, await lend(api, other, { scope: SCOPES })]) {
      expect(outcomeOf(await verifyAt(api, customer, agent))).toBe("deny not_delegated");
      const operation = operationOf({
        platform: customer,
        person: shop.person,
        agentId: agent.agentId,
      });
      const context = contextOf(operation as never, BOUND_SCOPE);
      const challenge = await challengeOf(api, customer);
      const bundle = await proofOver(api, challenge, agent, Buffer.from(context).toString("base64"));
      const question = { proof_bundle: bundle, required_scope: BOUND_SCOPE, operation };
      const answer = await keyed(api, customer, "/v1/service/verify", question);
      expect(outcomeOf(answer)).toBe("deny not_delegated");
      const { invocation_id = "" } = operation;
      expect(await api.db("invocations").where({ invocation_id })).toEqual([]);
    }
  });

  test("lends nothing that a process of the former version would allow elsewhere", async () => {
    const { person } = customer;
    const { certId } = lent;
    const at = { connectionId: own.platform.connectionId, accountId: person.accountId };
    const ask = (id: string, place = at) =>
      formerVerdict(api.db, { certId: id, scope: "data:read", at: place });
    expect(await ask(own.certId)).toBe("allow authorized");
    expect(await ask(certId)).toBe("deny ceiling_exceeded");
    expect(await isFoundByFormer(api.db, { certId: own.certId, scope: "data:read" })).toBe(true);
    expect(await isFoundByFormer(api.db, { certId, scope: "data:read" })).toBe(false);
    const third = await api.person();
    const { connectionId } = await registerPlatform(third);
    const verifier = { accountId: third.accountId, connectionId };
    await acceptPrincipal(api.db, verifier, person, { created_at: api.clock.now() });
    const there = { connectionId, accountId: third.accountId };
    expect(await ask(own.certId, there)).toBe("allow authorized");
    expect(await ask(certId, there)).toBe("deny ceiling_exceeded");
    const atShop = { connectionId: customer.connectionId, accountId: shop.person.accountId };
    expect(await ask(certId, atShop)).toBe("deny principal_not_accepted");
    const wide = api.db("certificates").where({ cert_id: certId }).update({ ceiling_scope: null });
    await expect(wide).rejects.toMatchObject({ code: "23514" });
  });

  test("counts a rate for each certificate exactly", async () => {
    const rated = await lend(api, customer, {
      constraints: [{ type: "max_rate", count: 2, window_s: 3600 }],
    });
    const answers = await Promise.all(Array.from({ length: 6 }, () => verifyAt(api, customer, rated)));
    const outcomes = answers.map(outcomeOf).sort();
    expect(outcomes.filter((outcome) => outcome === "allow authorized")).toHaveLength(2);
    expect(outcomes.filter((outcome) => outcome === "deny constraint_denied")).toHaveLength(4);
  });

  test("answers an AuthZEN question with the same decision", async () => {
    const ask = async ({ agentId, certId }: Lent) => {
      const proof_bundle = await proofOver(api, await challengeOf(api, customer), { agentId, certId });
      const { body } = await keyed(api, customer, "/access/v1/evaluation", {
        subject: { type: "agent", id: agentId },
        action: { name: "data:read" },
        resource: { type: "connection", id: customer.connectionId },
        context: { proof_bundle },
      });
      return [body.decision, (body.context as Record<string, unknown>).reason];
    };
    expect(await ask(lent)).toEqual([true, "authorized"]);
    expect(await ask(own.agent)).toEqual([false, "not_delegated"]);
  });

  test("allows nothing after the connection has ended, whoever is deciding at that moment", async () => {
    const leaving = await connect(api, shop);
    const agent = await lend(api, leaving);
    let ended = false;
    const late: string[] = [];
    const calls = Array.from({ length: 8 }, async () => {
      for (let n = 0; n < 6; n += 1) {
        const isLate = ended;
        const outcome = outcomeOf(
          await verifyAt(api, leaving, agent).catch(() => ({ status: 401, body: {} }) as never),
        );
        if (isLate) late.push(outcome);
      }
    });
    const end = endFor(api, leaving).then(() => {
      ended = true;
    });
    await Promise.all([...calls, end]);
    expect(late.filter((outcome) => outcome.startsWith("allow"))).toEqual([]);
    await until(
      "the key has ended here too",
      async () => (await keyed(api, leaving, "/v1/service/challenge")).status === 401,
    );
  });
});

describe("a certificate of a customer connection", () => {
  test("counts at none of the customer's own applications, bound to an operation or not", async () => {
    expect(outcomeOf(await verifyAt(api, own.platform, lent))).toBe("deny not_delegated");
    const operation = operationOf({ platform: own.platform, person: customer.person, agentId: lent.agentId });
    const context = Buffer.from(contextOf(operation as never, BOUND_SCOPE)).toString("base64");
    const bundle = await proofOver(api, await challengeOf(api, own.platform), lent, context);
    const question = { proof_bundle: bundle, required_scope: BOUND_SCOPE, operation };
    expect(outcomeOf(await keyed(api, own.platform, "/v1/service/verify", question))).toBe(
      "deny not_delegated",
    );
    expect(await api.db("invocations").where({ invocation_id: String(operation.invocation_id) })).toEqual([]);
  });

  test("does not count at the publisher's own connection, even if the platform accepts the customer's root", async () => {
    expect(outcomeOf(await verifyAt(api, shop.platform, lent))).toBe("deny principal_not_accepted");
    const path = `/v1/service/platforms/${shop.platform.platformId}/accepted-principals/${customer.person.humanId}`;
    const accepted = await shop.person.client.call("PUT", path, { body: { scopes: ["data:read"] } });
    expect(accepted.status).toBe(200);
    expect(outcomeOf(await verifyAt(api, shop.platform, lent))).toBe("deny not_delegated");
    await shop.person.client.call("DELETE", path);
  });
});

describe("an agent of a customer connection", () => {
  test("answers no challenge of another connection, whichever way the call names it", async () => {
    for (const verifier of [own.platform, shop.platform]) {
      const challenge = await challengeOf(api, verifier);
      const owner = verifier === own.platform ? customer.person : shop.person;
      const operation = operationOf({ platform: verifier, person: owner, agentId: lent.agentId });
      const verifier_connection_id = verifier.connectionId;
      const present = (body: Record<string, unknown>) =>
        keyed(api, customer, presentPath(customer, lent.agentId), { required_scope: BOUND_SCOPE, ...body });
      expect(errorCode(await present({ challenge }))).toBe("invalid_challenge");
      expect(errorCode(await present({ challenge, operation }))).toBe("invalid_challenge");
      expect(errorCode(await present({ challenge, verifier_connection_id }))).toBe("invalid_challenge");
      expect(errorCode(await present({ operation }))).toBe("verifier_mismatch");
      const path = `/v1/service/challenge?verifier_connection_id=${verifier_connection_id}`;
      expect((await keyed(api, customer, path)).status).toBe(404);
    }
  });

  test("presents for its own connection with an operation that names the publisher's workspace", async () => {
    const operation = operationOf({ platform: customer, person: shop.person, agentId: lent.agentId });
    const path = presentPath(customer, lent.agentId);
    const presented = await keyed(api, customer, path, { operation, required_scope: BOUND_SCOPE });
    expect(presented.status).toBe(200);
    const { proof_ref } = presented.body;
    const question = { proof_ref, operation, required_scope: BOUND_SCOPE };
    expect(outcomeOf(await keyed(api, customer, "/v1/service/verify", question))).toBe("allow authorized");
  });

  test("asks the customer, and not the publisher, for authority that it lacks", async () => {
    const { connectionId } = customer;
    const agentId = await createAgent(api.client(), customer);
    const path = presentPath(customer, agentId);
    const challenge = await challengeOf(api, customer);
    const { body: refused } = await keyed(api, customer, path, { challenge, required_scope: "data:read" });
    const asked = await keyed(api, customer, "/v1/service/access-requests", {
      subject: { type: "agent", id: agentId },
      denial: { evaluation_id: refused.evaluation_id },
      requested_access: { scopes: ["data:read"] },
      context: { purpose: "Read the report" },
    });
    expect(asked.status).toBe(202);
    expect(await api.db("delegation_requests").where({ agent_id: agentId })).toMatchObject([
      { account_id: customer.person.accountId, connection_id: connectionId },
    ]);
  });
});
