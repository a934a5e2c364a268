import { must, type Visitor } from "../../specification/visitor.ts";
import { type Addresses, applicationOf, makeAgent, openOwner, openShop, type Shop } from "../load/people.ts";

/** An account with an agent and a certificate. It is checked after each event in the life of the release. */
export type SampleAccount = {
  /** Issues an additional certificate with the same scopes, and returns the certificate's id. */
  lend(): Promise<string>;
  /** Returns the same account with a different agent, which has the same scopes. */
  withNewAgent(apiUrl: string): Promise<SampleAccount>;
  /** Presents the first certificate or the given one, and verifies the proof. Returns decision and reason. */
  verify(apiUrl: string, certId?: string): Promise<string>;
  /** Presents the certificate, which needs a signature of the vault, and returns the API's answer. */
  present(apiUrl: string): Promise<string>;
};

/** Creates a sample account, with a certificate that the vault has signed. */
export async function openSampleAccount(addresses: Addresses): Promise<SampleAccount> {
  const owner = await openOwner(addresses);
  return sampleAccountOf(owner, await openShop(owner, addresses));
}

async function sampleAccountOf(owner: Visitor, shop: Shop): Promise<SampleAccount> {
  const { connectionId, agentId } = shop;
  const at = (apiUrl: string) => applicationOf(shop, apiUrl);

  async function lend(): Promise<string> {
    const wish = { connection_id: connectionId, agent_id: agentId, requested_scope: ["data:read"] };
    const { request_id } = must(await owner.call("POST", "/v1/service/delegations/self-request", wish));
    const approval = { approved_scope: ["data:read"] };
    const path = `/v1/service/delegations/requests/${request_id}/approve`;
    return String(must(await owner.call("POST", path, approval)).cert_id);
  }

  const first = await lend();

  async function presented(application: Visitor, cert_id: string) {
    const { challenge } = must(await application.call("POST", "/v1/service/challenge"));
    const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
    return application.call("POST", path, { challenge, cert_id });
  }

  return {
    lend,
    withNewAgent: async (apiUrl) =>
      sampleAccountOf(owner, { ...shop, agentId: await makeAgent(at(apiUrl), shop) }),
    async verify(apiUrl, certId = first) {
      const application = at(apiUrl);
      const { proof_bundle } = must(await presented(application, certId));
      const asked = { proof_bundle, required_scope: "data:read" };
      const { decision, decision_reason } = must(await application.call("POST", "/v1/service/verify", asked));
      return `${String(decision)} ${String(decision_reason)}`;
    },
    async present(apiUrl) {
      const { status, body, headers } = await presented(at(apiUrl), first);
      const { error } = body as { error?: { code?: string } };
      return [status, error?.code, headers.has("retry-after") ? "Retry-After" : ""].join(" ").trim();
    },
  };
}
