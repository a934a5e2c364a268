import { requestDelegation } from "../../src/delegations/requests/request_delegation.ts";
import { findOwner } from "../../src/platforms/account_owner.ts";
import {
  type CustomerConnection,
  createCustomerConnection,
} from "../../src/platforms/connections/customer_connections.ts";
import type { Person, TestApi } from "./api.ts";
import { approve, createAgent, registerPlatform, type TestPlatform } from "./platform_world.ts";

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
  { platform }: Publisher,
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
