import { createVisitor, must, type Visitor } from "../../specification/visitor.ts";
import { type Addresses, openOwner, openShop } from "../load/people.ts";

/**
 * Somebody's account with an agent that was lent something; it can be tried whatever becomes of the release.
 */
export type Keepsake = {
  /** Presents and verifies anew: the decision with its reason. */
  verify(apiUrl: string): Promise<string>;
  /** What the API answers when it has to sign. */
  present(apiUrl: string): Promise<string>;
};

/** Opens such an account, with a certificate that the vault has signed. */
export async function openKeepsake(addresses: Addresses): Promise<Keepsake> {
  const owner = await openOwner(addresses);
  const shop = await openShop(owner, addresses);
  const { connectionId, agentId, apiKey } = shop;
  const wish = { connection_id: connectionId, agent_id: agentId, requested_scope: ["data:read"] };
  const { request_id } = must(await owner.call("POST", "/v1/service/delegations/self-request", wish));
  const approval = { approved_scope: ["data:read"] };
  must(await owner.call("POST", `/v1/service/delegations/requests/${request_id}/approve`, approval));
  const at = (baseUrl: string): Visitor =>
    createVisitor(
      { baseUrl, mailbox: "", word: "service", limits: false },
      {},
      { "x-service-api-key": apiKey },
    );

  async function presented(application: Visitor) {
    const { challenge } = must(await application.call("POST", "/v1/service/challenge"));
    const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
    return application.call("POST", path, { challenge });
  }

  return {
    async verify(apiUrl) {
      const application = at(apiUrl);
      const { proof_bundle } = must(await presented(application));
      const asked = { proof_bundle, required_scope: "data:read" };
      const { decision, decision_reason } = must(await application.call("POST", "/v1/service/verify", asked));
      return `${String(decision)} ${String(decision_reason)}`;
    },
    async present(apiUrl) {
      const { status, body, headers } = await presented(at(apiUrl));
      const { error } = body as { error?: { code?: string } };
      return [status, error?.code, headers.has("retry-after") ? "Retry-After" : ""].join(" ").trim();
    },
  };
}
