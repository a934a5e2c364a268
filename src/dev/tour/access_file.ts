import { curlLines as shellLines } from "../../proofs/try/curl.ts";
import { type TourState, USED_SCOPE } from "./steps.ts";

/** What somebody needs to call the running stack; kept in `connection.json` (mode 0600). */
export type Access = {
  base_url: string;
  api_key: string;
  connection_id: string;
  agent_id: string;
  /** Absent when there is no delegation. */
  cert_id?: string;
  scope: string;
  owner_email: string;
};

/** What is known when the tour did not finish. */
export type KnownAccess = Partial<Access> & Pick<Access, "base_url" | "owner_email">;

/** The connection that the tour has kept, as far as it got. */
export function accessOf(baseUrl: string, state: Partial<TourState>, ownerEmail: string): KnownAccess {
  const { application, certId, granted } = state;
  const known = { base_url: baseUrl, owner_email: ownerEmail };
  if (application === undefined) return known;
  const { apiKey, connectionId, agentId } = application;
  const connection = { ...known, api_key: apiKey, connection_id: connectionId };
  if (agentId === "") return connection;
  const scope = granted?.includes(USED_SCOPE) ? USED_SCOPE : (granted?.[0] ?? USED_SCOPE);
  const stands = certId !== undefined && certId !== "" && granted !== undefined;
  return { ...connection, agent_id: agentId, scope, ...(stands ? { cert_id: certId } : {}) };
}

/**
 * Lines for a shell, which work when they are pasted unchanged: challenge, present, verify. They name a
 * scope, not a certificate, and so go on working when a later start has replaced the delegation.
 */
export function curlLines(access: Access): string[] {
  const question = { required_scope: access.scope };
  return shellLines({
    baseUrl: access.base_url,
    word: "service",
    apiKey: access.api_key,
    connectionId: access.connection_id,
    agentId: access.agent_id,
    present: question,
    verify: question,
  });
}

/** What a person sees when everything is up; lines to paste only when there is something they can prove. */
export function tryItYourself(access: KnownAccess, folder: string): string[] {
  return [
    "",
    ...(isComplete(access)
      ? [
          "Everything is up. Try it in another shell; the last line answers allow, once for each challenge:",
          "",
          ...curlLines(access),
        ]
      : ["Everything is up, but there is no delegation to try."]),
    "",
    `Base URL     ${access.base_url}`,
    ...(access.api_key === undefined ? [] : [`API key      ${access.api_key}`]),
    `Console      ${access.base_url}/console (sign in as ${access.owner_email}; codes are in the mailbox)`,
    `Mailbox      ${access.base_url}/dev/mailbox`,
    `API          ${access.base_url}/openapi.json`,
    `Manifests    ${folder}/manifests (change one and watch ${folder}/status)`,
    "",
    "Ctrl-C ends everything.",
  ];
}

function isComplete(access: KnownAccess): access is Access {
  return access.cert_id !== undefined;
}
