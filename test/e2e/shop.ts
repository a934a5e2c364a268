import { createVisitor, must, type Visitor } from "../specification/visitor.ts";

/** A person's client for the first API, and clients of the application for each API. */
export type Shop = {
  person: Visitor;
  on: Visitor[];
  agents: string;
  connectionId: string;
  /** Secret of the connection's webhooks. */
  secret: string;
  /** Signs the person in again. */
  signIn(): ReturnType<Visitor["signIn"]>;
  /** Returns clients of the person and of the application for a further API. */
  at(baseUrl: string): { person: Visitor; application: Visitor };
};

/** Opens an account at the first of these APIs, which share one database and one vault. */
export async function openShop(bases: readonly [string, ...string[]], name: string): Promise<Shop> {
  const [baseUrl] = bases;
  const settings = { baseUrl, mailbox: `${baseUrl}/dev/mailbox`, word: "service", limits: false };
  const person = createVisitor(settings);
  const signIn = () => person.signIn(`${name}@example.test`);
  await signIn();
  await person.call("POST", "/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Lovelace" });
  await person.call("POST", "/v1/auth/onboarding/account-type", { account_type: "individual" });
  const { api_key, connection_id, webhook_signing_secret } = must(
    await person.call("POST", "/v1/service/platforms/personal", {
      name: "Shop",
      surface_type: "agentic_api",
      default_allowed_scopes: ["data:read"],
    }),
  );
  const key = { "x-service-api-key": String(api_key) };
  const on = bases.map((baseUrl) => createVisitor({ ...settings, baseUrl }, {}, key));
  const connectionId = String(connection_id);
  const path = `/v1/service/connections/${connectionId}/agents`;
  const wish = { name: "bot", agent_type: "api_agent" };
  const { agent_id } = must(await (on[0] as Visitor).call("POST", path, wish));
  return {
    person,
    on,
    agents: `${path}/${String(agent_id)}`,
    connectionId,
    secret: String(webhook_signing_secret),
    signIn,
    at: (baseUrl) => ({
      person: createVisitor({ ...settings, baseUrl }, person.state()),
      application: createVisitor({ ...settings, baseUrl }, {}, key),
    }),
  };
}
