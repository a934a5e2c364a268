import { isDeepStrictEqual } from "node:util";
import { durationSeconds } from "../../input/durations.ts";
import type { AgentKeyAnswer, AgentState } from "../../operator_calls.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import type { Agent, Platform } from "../kinds.ts";
import type { Secret } from "../resources.ts";
import {
  agentSecretName,
  heldPrefix,
  isAgentSecret,
  keptAgentSecret,
  newAgentSecret,
} from "./agent_secret.ts";
import { isRotationDue, rotationDue } from "./platform_credentials.ts";
import { lastRequest, rotationRequest, type WantedSecret, withOthersMarks } from "./platform_secret.ts";

/** The key that an API knows for an Agent's object. */
export type AgentKey = NonNullable<AgentState["key"]>;

/** The key in an Agent's Secret, the last request for a new key, and when the key is due for rotation. */
export type PublishedKey = { key: AgentKey; lastRequest: string | undefined; due: Date | undefined };

/**
 * The result of publishing an Agent's key:
 * - `published`: the Secret contains the current key.
 * - `not_owned`: a Secret of a different owner has the name.
 * - `raced`: another writer changed the Secret or the key meanwhile.
 * - `failed`: the API call failed.
 */
type Publication =
  | ({ kind: "published" } & PublishedKey)
  | { kind: "not_owned" }
  | { kind: "raced" }
  | { kind: "failed"; failure: ApiFailure };

/** An Agent, its Platform if that exists, and the key that the operator has stored according to the API. */
type Keyed = { agent: Agent; platform: Platform | undefined; known: AgentKey | null };

/**
 * Ensures that an Agent's Secret contains the current key of its object. Stores and confirms a delivered key.
 * Replaces a key that is lost, or due by the Platform's `keyRotation`. Never touches a Secret that is not the
 * Agent's own.
 */
export async function publishAgentKey(context: OperatorContext, keyed: Keyed): Promise<Publication> {
  const { agent, known } = keyed;
  const current = await context.resources.readSecret(agent.metadata.namespace, agentSecretName(agent));
  if (current !== undefined && !isAgentSecret(current, agent)) return { kind: "not_owned" };
  const held = current === undefined ? undefined : heldPrefix(current);
  if (current === undefined || known === null || held !== known.api_key_prefix) {
    // A key without a Secret may be in use, not lost, while an object takes over an agent.
    const isTakingOver = agent.status.credentialsSecretName === undefined;
    return callAndStore(context, keyed, current, { keep: held, hasGrace: isTakingOver });
  }
  if (isRotationDue(rotated(keyed), known, current, context.clock.agreed())) {
    return callAndStore(context, keyed, current, { keep: undefined, hasGrace: true });
  }
  return store(context, keyed, current, known, keptAgentSecret(current, agent, context.apiUrl));
}

/** Removes an Agent's Secret if it is the Agent's own. */
export async function removeAgentSecret({ resources }: OperatorContext, agent: Agent): Promise<void> {
  const secret = await resources.readSecret(agent.metadata.namespace, agentSecretName(agent));
  if (secret !== undefined && isAgentSecret(secret, agent)) await resources.removeSecret(secret);
}

const rotated = ({ agent: { metadata }, platform }: Keyed) => ({
  metadata,
  spec: { keyRotation: platform?.spec.keyRotation },
});

async function callAndStore(
  context: OperatorContext,
  keyed: Keyed,
  current: Secret | undefined,
  { keep, hasGrace }: { keep: string | undefined; hasGrace: boolean },
): Promise<Publication> {
  const { agent, platform } = keyed;
  const { api, apiUrl } = context;
  const id = context.externalIdOf(agent);
  const grace = hasGrace ? durationSeconds(platform?.spec.keyRotation?.grace ?? "") : 0;
  const request = rotationRequest(agent);
  const { value, failure } = await api.putAgentKey(id, { keep, grace_seconds: grace, request });
  if (failure !== undefined) return { kind: "failed", failure };
  // The API confirms the key that the Secret holds. The next visit decides about its age.
  if (value.api_key === null) return { kind: "raced" };
  const wanted = newAgentSecret(agent, value, { apiKey: value.api_key, apiUrl, request });
  const publication = await store(context, keyed, current, statedIn(value), wanted);
  if (publication.kind !== "published") return publication;
  const kept = await api.putAgentKey(id, { keep: value.api_key_prefix, grace_seconds: 0, request });
  if (kept.failure !== undefined) return { kind: "failed", failure: kept.failure };
  return kept.value.api_key === null ? publication : { kind: "raced" };
}

function statedIn({ api_key_prefix, api_key_issued_at, rotation_request }: AgentKeyAnswer): AgentKey {
  return { api_key_prefix, api_key_issued_at, rotation_request };
}

/** Writes the Secret if it differs. */
async function store(
  { resources }: OperatorContext,
  keyed: Keyed,
  current: Secret | undefined,
  key: AgentKey,
  bare: WantedSecret,
): Promise<Publication> {
  const wanted = withOthersMarks(bare, current);
  const { version: _, ...stored } = current ?? { version: "" };
  if (!isDeepStrictEqual(stored, wanted) && !(await resources.writeSecret(wanted, current))) {
    return { kind: "not_owned" };
  }
  const { agent } = keyed;
  const secret = { ...wanted, version: "" };
  const due = rotationDue(rotated(keyed), key, secret);
  return { kind: "published", key, lastRequest: lastRequest(agent, key, wanted), due };
}
