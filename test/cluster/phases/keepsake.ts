import { createVisitor, must, type Visitor } from "../../specification/visitor.ts";
import { type Addresses, openOwner, openShop } from "../load/people.ts";

/**
 * Somebody's account with an agent that was lent something; it can be tried whatever becomes of the release.
 */
export type Keepsake = {
  /** The certificate that the agent was lent something by at first. */
  certId: string;
  /** Lends the agent the same once more, and gives the certificate. */
  lend(): Promise<string>;
  /** Presents a certificate and verifies it anew: the decision with its reason. */
  verify(apiUrl: string, certId?: string): Promise<string>;
  /** What the API answers when it has to sign. */
  present(apiUrl: string): Promise<string>;
};

/** Opens such an account, with a certificate that the vault has signed. */
export async function openKeepsake(addresses: Addresses): Promise<Keepsake> {
  const owner = await openOwner(addresses);
  const shop = await openShop(owner, addresses);
  const { connectionId, agentId, apiKey } = shop;

  async function lend(): Promise<string> {
    const wish = { connection_id: connectionId, agent_id: agentId, requested_scope: ["data:read"] };
    const { request_id } = must(await owner.call("POST", "/v1/service/delegations/self-request", wish));
    const approval = { approved_scope: ["data:read"] };
    const path = `/v1/service/delegations/requests/${request_id}/approve`;
    return String(must(await owner.call("POST", path, approval)).cert_id);
  }

  const certId = await lend();
  const at = (baseUrl: string): Visitor =>
    createVisitor(
      { baseUrl, mailbox: "", word: "service", limits: false },
      {},
      { "x-service-api-key": apiKey },
    );

  async function presented(application: Visitor, cert_id: string) {
    const { challenge } = must(await application.call("POST", "/v1/service/challenge"));
    const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
    return application.call("POST", path, { challenge, cert_id });
  }

  return {
    certId,
    lend,
    async verify(apiUrl, shown = certId) {
      const application = at(apiUrl);
      const { proof_bundle } = must(await presented(application, shown));
      const asked = { proof_bundle, required_scope: "data:read" };
      const { decision, decision_reason } = must(await application.call("POST", "/v1/service/verify", asked));
      return `${String(decision)} ${String(decision_reason)}`;
    },
    async present(apiUrl) {
      const { status, body, headers } = await presented(at(apiUrl), certId);
      const { error } = body as { error?: { code?: string } };
      return [status, error?.code, headers.has("retry-after") ? "Retry-After" : ""].join(" ").trim();
    },
  };
}
