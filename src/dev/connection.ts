import { type TourState, USED_SCOPE } from "./tour.ts";

/** What somebody needs to call the running stack; kept in `connection.json` (mode 0600). */
export type Connection = {
  base_url: string;
  api_key: string;
  connection_id: string;
  agent_id: string;
  cert_id: string;
  scope: string;
  owner_email: string;
};

/** The connection that the tour has left standing. */
export function connectionOf({ application, certId }: TourState, ownerEmail: string): Connection {
  return {
    base_url: application.baseUrl,
    api_key: application.apiKey,
    connection_id: application.connectionId,
    agent_id: application.agentId,
    cert_id: certId,
    scope: USED_SCOPE,
    owner_email: ownerEmail,
  };
}

/** Lines for a shell, which work when they are pasted as they stand: challenge, present, verify. */
export function curlLines(connection: Connection): string[] {
  const { base_url, api_key, connection_id, agent_id, scope } = connection;
  const post = (path: string) =>
    `curl -s -X POST ${base_url}/v1/service/${path} -H 'X-Service-API-Key: ${api_key}' -H 'Content-Type: application/json'`;
  return [
    `CHALLENGE=$(${post("challenge")} | sed 's/.*"challenge":"\\([^"]*\\)".*/\\1/')`,
    `PROOF=$(${post(`connections/${connection_id}/agents/${agent_id}/present`)} -d "{\\"challenge\\":\\"$CHALLENGE\\"}")`,
    `printf '%s' "$PROOF" | sed 's/^{/{"required_scope":"${scope}",/' | ${post("verify")} --data-binary @-`,
  ];
}

/** What a person is told when everything is up. */
export function tryItYourself(connection: Connection, file: string, folder: string): string[] {
  return [
    "",
    "Everything is up. Try it in another shell; the last line answers allow, once for each challenge:",
    "",
    ...curlLines(connection),
    "",
    `Base URL     ${connection.base_url}`,
    `API key      ${connection.api_key}`,
    `Mailbox      ${connection.base_url}/dev/mailbox (sign in as ${connection.owner_email})`,
    `API          ${connection.base_url}/openapi.json`,
    `Manifests    ${folder}/manifests (change one and watch ${folder}/status)`,
    `These values ${file}`,
    "",
    "Ctrl-C ends everything.",
  ];
}
