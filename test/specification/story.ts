import { inject } from "vitest";
import { CEILING, type Someone } from "./people.ts";
import { type Answer, createVisitor, must, type Visitor } from "./visitor.ts";

/** A person with a browser, and an application with the API key of the person's platform. */
export type Actor = Someone & {
  person: Visitor;
  application: Visitor;
  connectionId: string;
  createAgent(): Promise<string>;
  /** Delegates scopes to one of the person's agents. Returns the certificate. */
  delegate(agentId: string, scope: string[], asked?: object): Promise<Record<string, unknown>>;
  challenge(): Promise<string>;
  present(agentId: string, fields?: object): Promise<Answer>;
  proof(agentId: string): Promise<unknown>;
  verify(proof: unknown, scope: string, fields?: object): Promise<Answer>;
};

export function actor(name: "ada" | "grace"): Actor {
  const [settings, someone] = [inject("settings"), inject(name)];
  const connectionId = String(someone.platform.connection_id);
  const person = createVisitor(settings, someone.browser);
  const application = createVisitor(settings, {}, { "x-service-api-key": String(someone.platform.api_key) });
  const agents = `/v1/service/connections/${connectionId}/agents`;
  const self: Actor = {
    ...someone,
    person,
    application,
    connectionId,
    async createAgent() {
      const wish = { name: "shop-bot", agent_type: "api_agent" };
      return String(must(await application.call("POST", agents, wish)).agent_id);
    },
    async delegate(agentId, approved_scope, asked = {}) {
      const request = must(
        await person.call("POST", "/v1/service/delegations/self-request", {
          connection_id: connectionId,
          agent_id: agentId,
          ...asked,
        }),
      );
      const path = `/v1/service/delegations/requests/${String(request.request_id)}/approve`;
      return must(await person.call("POST", path, { approved_scope }));
    },
    challenge: async () => String(must(await application.call("POST", "/v1/service/challenge")).challenge),
    present: async (agentId, fields = {}) =>
      application.call("POST", `${agents}/${agentId}/present`, {
        challenge: await self.challenge(),
        ...fields,
      }),
    proof: async (agentId) => must(await self.present(agentId)).proof_bundle,
    verify: (proof_bundle, required_scope, fields = {}) =>
      application.call("POST", "/v1/service/verify", { proof_bundle, required_scope, ...fields }),
  };
  return self;
}

export { CEILING, must };
