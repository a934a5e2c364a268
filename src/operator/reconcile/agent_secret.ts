import { hash } from "node:crypto";
import type { AgentKeyAnswer } from "../../operator_calls.ts";
import type { Agent } from "../kinds.ts";
import type { Secret } from "../resources.ts";
import { MANAGED_BY, ROTATE_KEY, SECRET_TYPE, type WantedSecret } from "./platform_secret.ts";

const OWNER = "deputize.io/agent-uid";
const OWNER_NAME = "deputize.io/agent";
const ISSUED_AT = "deputize.io/issued-at";
const DIGEST = "deputize.io/content-sha256";
/** The values that only the service can deliver again. The operator corrects `base_url` without a new key. */
const CREDENTIALS = ["api_key", "api_key_prefix", "agent_id", "connection_id"] as const;

/** Returns the name of the Secret for an Agent's API key. */
export function agentSecretName({ metadata }: Pick<Agent, "metadata">): string {
  return `${metadata.name}-agent-key`;
}

/** Returns whether a Secret is this Agent's, also if a former Agent of the same name owned it. */
export function isAgentSecret({ type, annotations }: Secret, { metadata }: Agent): boolean {
  if (type !== SECRET_TYPE) return false;
  return annotations[OWNER] === metadata.uid || annotations[OWNER_NAME] === metadata.name;
}

/** Returns the prefix of the key in a Secret; `undefined` if values are missing or were changed. */
export function heldPrefix({ annotations, data }: Secret): string | undefined {
  const isWhole = CREDENTIALS.every((name) => (data[name] ?? "") !== "");
  return isWhole && annotations[DIGEST] === digestOf(data) ? data.api_key_prefix : undefined;
}

/** Returns a digest of the credentials. It reveals nothing, because the key is random and long. */
function digestOf(data: Readonly<Record<string, string>>): string {
  return hash("sha256", JSON.stringify(CREDENTIALS.map((name) => data[name] ?? "")), "hex");
}

/** Returns the Secret for a key that the API has just delivered. */
export function newAgentSecret(
  agent: Agent,
  { agent_id, connection_id, api_key_prefix, api_key_issued_at }: AgentKeyAnswer,
  { apiKey, apiUrl, request }: { apiKey: string; apiUrl: string; request: string | undefined },
): WantedSecret {
  const { namespace, name, uid } = agent.metadata;
  const data = { api_key: apiKey, api_key_prefix, agent_id, connection_id, base_url: apiUrl };
  return {
    namespace,
    name: agentSecretName(agent),
    type: SECRET_TYPE,
    labels: { [MANAGED_BY]: "deputize" },
    annotations: {
      [OWNER]: uid,
      [OWNER_NAME]: name,
      [ISSUED_AT]: api_key_issued_at,
      [DIGEST]: digestOf(data),
      ...(request !== undefined && { [ROTATE_KEY]: request }),
    },
    data,
  };
}

/** Returns a Secret with the same key, this Agent as its owner, and the current base URL. */
export function keptAgentSecret(
  { version: _, ...held }: Secret,
  { metadata }: Agent,
  apiUrl: string,
): WantedSecret {
  return {
    ...held,
    annotations: { ...held.annotations, [OWNER]: metadata.uid, [OWNER_NAME]: metadata.name },
    data: { ...held.data, base_url: apiUrl },
  };
}
