import { curlLines as shellLines } from "../../proofs/try/curl.ts";
import { type TourState, USED_SCOPE } from "./steps.ts";

/** Access data for the running stack, stored in `connection.json` (mode 0600). */
export type Access = {
  base_url: string;
  api_key: string;
  connection_id: string;
  /** The ids that name the connection in an operation. */
  workspace_id?: string | undefined;
  verifier_id?: string | undefined;
  agent_id: string;
  /** Absent if no delegation exists. */
  cert_id?: string;
  scope: string;
  owner_email: string;
};

/** Shell lines that each run an agent. The second one needs Python 3.11 or newer and its `venv`. */
export type AgentLines = { javascript: string; python: string };

/** Access data after a tour that did not finish. */
export type KnownAccess = Partial<Access> & Pick<Access, "base_url" | "owner_email">;

/** Returns the access data that the tour has collected so far. */
export function accessOf(baseUrl: string, state: Partial<TourState>, ownerEmail: string): KnownAccess {
  const { application, certId, granted } = state;
  const known = { base_url: baseUrl, owner_email: ownerEmail };
  if (application === undefined) return known;
  const { apiKey, connectionId, agentId, verifier } = application;
  const connection = { ...known, api_key: apiKey, connection_id: connectionId, ...verifier };
  if (agentId === "") return connection;
  const scope = granted?.includes(USED_SCOPE) ? USED_SCOPE : (granted?.[0] ?? USED_SCOPE);
  const isActive = certId !== undefined && certId !== "" && granted !== undefined;
  return { ...connection, agent_id: agentId, scope, ...(isActive ? { cert_id: certId } : {}) };
}

/**
 * Returns shell commands for challenge, present and verify. They contain no certificate ID, so they still
 * work after a later start has replaced the delegation.
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

/**
 * Returns the last lines that a start prints. Without a delegation and its agents they contain no commands to
 * paste.
 */
export function tryItYourself(access: KnownAccess, folder: string, agents?: AgentLines): string[] {
  const { base_url: baseUrl, owner_email: email } = access;
  const calls =
    isComplete(access) && agents !== undefined
      ? [
          "Everything is up. Paste these lines into another shell. The last one answers allow, once for each challenge:",
          "",
          ...curlLines(access),
          "",
          `An agent that orders from a guarded shop, in JavaScript and in Python (3.11 or newer). Change them in ${folder}/agents:`,
          "",
          agents.javascript,
          agents.python,
          "",
          `Variables for your own application (VERIFY_KEY) and agent (AGENT_KEY): set -a; . ${folder}/agents/values.env; set +a`,
        ]
      : ["Everything is up, but there is no delegation to try."];
  return [
    "",
    ...calls,
    "",
    `Console        ${baseUrl}/console (sign in as ${email}; the code appears at ${baseUrl}/dev/mailbox)`,
    `API reference  ${baseUrl}/docs`,
    `Call the API   with the base URL, the API key and the ids in ${folder}/connection.json`,
    "Stop           Ctrl-C ends everything",
  ];
}

/** Returns whether a delegation exists. */
export function isComplete(access: KnownAccess): access is Access {
  return access.cert_id !== undefined;
}
