import { unixSeconds } from "../../src/clock.ts";
import { requestDelegation } from "../../src/delegations/requests/request_delegation.ts";
import { findOwner } from "../../src/platforms/account_owner.ts";
import {
  type ConnectionParty,
  endCustomerConnection,
} from "../../src/platforms/connections/connection_changes.ts";
import {
  type CustomerConnection,
  createCustomerConnection,
} from "../../src/platforms/connections/customer_connections.ts";
import type { Person, TestApi } from "./api.ts";
import type { HttpAnswer } from "./http.ts";
import { approve, createAgent, errorCode, registerPlatform, type TestPlatform } from "./platform_world.ts";

/** A publisher with a platform, and the customers that connect to it. */
export type Publisher = { person: Person; platform: TestPlatform };

/** A customer's connection with a publisher's platform. */
export type Customer = CustomerConnection & { person: Person };

/** An agent of a customer connection, and the customer's certificate for it. */
export type Lent = { agentId: string; certId: string };

export async function publisher(api: TestApi, fields: Record<string, unknown> = {}): Promise<Publisher> {
  const person = await api.person({ organization_name: "Shop Ltd" });
  return { person, platform: await registerPlatform(person, fields, "/v1/service/platforms") };
}

/** Connects a customer to the platform, or connects a given one again. */
export async function connect(
  api: TestApi,
  { platform }: { person?: Person; platform: Pick<TestPlatform, "platformId"> },
  { person, scopes = ["data:read", "data:share"] }: { person?: Person; scopes?: string[] } = {},
): Promise<Customer> {
  const customer = person ?? (await api.person());
  const made = await api.db.transaction((tx) =>
    createCustomerConnection(tx, api.secretBox, {
      platformId: platform.platformId,
      customerAccountId: customer.accountId,
      customerName: "Customer & Sons",
      allowedScopes: scopes,
      connectedBy: customer.accountId,
      now: api.clock.now(),
    }),
  );
  return { ...made, person: customer };
}

/** Creates an agent with the connection's API key, and lends it scopes with the customer's approval. */
export async function lend(
  api: TestApi,
  customer: Customer,
  { scope = ["data:read"], constraints = [] }: { scope?: string[]; constraints?: unknown[] } = {},
): Promise<Lent> {
  const agentId = await createAgent(api.client(), customer);
  const requestId = await ask(api, customer, { agentId, scope, constraints });
  const answer = await approve(customer.person, requestId, scope);
  if (answer.status !== 200) throw new Error(answer.text);
  return { agentId, certId: String(answer.body.cert_id) };
}

/** Requests a delegation at a customer connection, as its platform does. */
export async function ask(
  api: TestApi,
  { connectionId, person }: Customer,
  { agentId, scope, constraints = [] }: { agentId: string; scope?: string[]; constraints?: unknown[] },
): Promise<string> {
  const owner = await findOwner(api.db, person.accountId);
  const row = await requestDelegation(api, owner, {
    ...{ connectionId, agentId, scope, constraints },
    expiry: { at: null, inSeconds: null },
    purpose: null,
    externalId: null,
  });
  return row.request_id;
}

/** Ends a customer connection for one of its parties: the customer, unless another is given. */
export function endFor(
  api: TestApi,
  { connectionId, person }: Pick<Customer, "connectionId" | "person">,
  party: ConnectionParty = { customer_account_id: person.accountId },
): Promise<Date> {
  const deps = { ...api, apiKeys: { forget: () => {} } } as Parameters<typeof endCustomerConnection>[0];
  return endCustomerConnection(deps, connectionId, party);
}

type Keyed = { apiKey: string; connectionId: string };

/** Makes a call with the API key of a connection. */
export function keyed(
  api: TestApi,
  { apiKey }: Pick<Keyed, "apiKey">,
  path: string,
  body?: unknown,
): Promise<HttpAnswer> {
  return api.client().post(path, body, { headers: { "x-service-api-key": apiKey }, csrf: false });
}

/** Returns a new challenge of a connection. */
export async function challengeOf(api: TestApi, connection: Keyed): Promise<string> {
  return String((await keyed(api, connection, "/v1/service/challenge")).body.challenge);
}

/**
 * Returns a genuine proof over a challenge, as an agent would make it with a key of its own. `present` would
 * refuse some of these challenges.
 */
export async function proofOver(
  { db, vault, clock }: TestApi,
  challenge: string,
  { agentId, certId }: Lent,
  sessionContext?: string,
): Promise<Record<string, unknown>> {
  const agent = (await db("agents").where({ agent_id: agentId }).first())!;
  const { cert_json } = (await db("certificates").where({ cert_id: certId }).first())!;
  const binding = {
    challenge,
    challenge_at: unixSeconds(clock.now()),
    ...(sessionContext === undefined ? {} : { session_context: sessionContext }),
  };
  const key = { tenant: agent.account_id, keyId: agent.vault_key_id ?? "" };
  const { challenge_sig } = await vault.signChallenge(key, binding);
  const delegations = [JSON.parse(cert_json)];
  return { agent_id: agentId, agent_pub_key: agent.public_key, delegations, ...binding, challenge_sig };
}

/** Verifies, at a connection, a genuine proof of an agent over a challenge of this connection. */
export async function verifyAt(
  api: TestApi,
  connection: Keyed,
  lent: Lent,
  fields: Record<string, unknown> = {},
): Promise<HttpAnswer> {
  const proof_bundle = await proofOver(api, await challengeOf(api, connection), lent);
  return keyed(api, connection, "/v1/service/verify", {
    proof_bundle,
    required_scope: "data:read",
    ...fields,
  });
}

/** Returns the decision of an answer and its reason, or its status and error. */
export function outcomeOf(answer: HttpAnswer): string {
  const { decision, decision_reason } = answer.body;
  return answer.status === 200 ? `${decision} ${decision_reason}` : `${answer.status} ${errorCode(answer)}`;
}
