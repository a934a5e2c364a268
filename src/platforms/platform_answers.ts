import { z } from "zod";
import { clusterOf } from "../clusters/identify_operator.ts";
import type { AgentRow } from "../db/tables.ts";
import { explanationValues, registrationFields, shownDescriptions } from "../input/platform_fields.ts";
import { isoTime, oneLine } from "../input/schemas.ts";
import { isRemoving, type LivePlatform, type PlatformRecord, surfaceTypes } from "./platform_record.ts";
import { pickDescriptions } from "./scope_descriptions.ts";

const MAX_OUTSIDE_VERIFIERS = 50;

/** The name that binds operations to a connection, at most 512 bytes as in the wire format. */
export const verifierName = oneLine(512).refine(
  (name) => Buffer.byteLength(name) <= 512,
  "must have at most 512 bytes",
);

/** Names of verifiers outside this service whose challenges the connection's agents may answer. */
export const outsideVerifiers = z
  .array(verifierName)
  .max(MAX_OUTSIDE_VERIFIERS)
  .refine((names) => new Set(names).size === names.length, "must not name a verifier twice")
  .describe(
    "Verifiers of other services, by name. An agent answers their challenges only for an operation that names them; at first none",
  );

/** Request body with which users register a platform. */
export const registrationBody = z.object({
  ...registrationFields,
  surface_type: registrationFields.surface_type.describe(
    `One of ${Object.keys(surfaceTypes).join(", ")}; agentic_api is open`,
  ),
});

/** Whether a connection's callback URL receives requests. */
export const callbackState = z
  .enum(["active", "paused", "suspended"])
  .describe("paused by the owner; suspended: its receiver fails");

const registeredFields = z.object({
  platform_id: z.string(),
  connection_id: z.string(),
  name: z.string(),
  description: z.string(),
  surface_type: z.string(),
  publish_state: z.enum(["draft", "pending_review", "published", "suspended"]),
  published_domain: z.string().nullable().describe("The verified domain of its publisher, while published"),
  default_allowed_scopes: z.array(z.string()),
  callback_url: z.string().nullable(),
  callback_state: callbackState,
  verifier_id: z.string(),
  registry_answers: z.boolean(),
  api_key_prefix: z.string(),
  created_at: isoTime,
  expires_at: isoTime,
});

/** The cluster object that declares a platform. */
export const declaredBy = z
  .object({ cluster_id: z.string(), namespace: z.string().nullable(), name: z.string().nullable() })
  .nullable()
  .describe("The Kubernetes object that declares it, if there is one");

/** A platform, as the API returns it without secrets. */
export const platformAnswer = registeredFields.extend({
  state: z.enum(["active", "removing"]).describe("removing: connections of its customers end"),
  api_key_prefix: z.string().nullable(),
  scope_descriptions: shownDescriptions,
  explanation_values: explanationValues,
  redirect_uris: z.array(z.string()),
  declared_by: declaredBy,
});
export type PlatformAnswer = z.infer<typeof platformAnswer>;

/** The platform object of a registration, with its three secrets, which are shown once (specification §2). */
export const registeredAnswer = registeredFields.extend({
  api_key: z.string().describe("Shown once"),
  signing_secret: z.string().describe("Shown once"),
  webhook_signing_secret: z.string().describe("Shown once; signs webhook deliveries"),
});

export type RegisteredAnswer = z.infer<typeof registeredAnswer>;

/** An agent, as the API returns it (specification §2). */
export const agentAnswer = z.object({
  agent_id: z.string(),
  name: z.string(),
  agent_type: z.string(),
  custody_mode: z.enum(["custodial", "self_custody"]),
  public_key_json: z.object({ ed25519: z.string(), ml_dsa_65: z.string() }),
  connection_id: z.string(),
  created_at: isoTime,
  disabled_at: isoTime.nullable().describe("When the agent was deleted"),
});

export type AgentAnswer = z.infer<typeof agentAnswer>;

/** Converts a platform to its form in API answers. */
export function showPlatform(record: PlatformRecord): PlatformAnswer {
  return {
    ...showFields(record),
    state: isRemoving(record) ? "removing" : "active",
    api_key_prefix: record.api_key_prefix,
    scope_descriptions: pickDescriptions(record.scope_descriptions, record.default_allowed_scopes),
    explanation_values: record.explanation_values,
    redirect_uris: record.redirect_uris,
    declared_by: showDeclaredBy(record),
  };
}

/** Returns the object that declares a platform, or that declares an agent in the platform's namespace. */
export function showDeclaredBy(
  record: Pick<PlatformRecord, "external_id" | "object_namespace" | "object_name">,
): z.infer<typeof declaredBy> {
  const { external_id, object_namespace, object_name } = record;
  if (external_id === null) return null;
  return { cluster_id: clusterOf(external_id), namespace: object_namespace, name: object_name };
}

/** Converts a platform to the answer to its registration, without secrets. */
export function showRegistered(record: LivePlatform): z.infer<typeof registeredFields> {
  return { ...showFields(record), api_key_prefix: record.api_key_prefix };
}

function showFields(record: PlatformRecord) {
  return {
    platform_id: record.platform_id,
    connection_id: record.connection_id,
    name: record.name,
    description: record.description,
    surface_type: record.surface_type,
    publish_state: record.publish_state,
    published_domain: record.publish_state === "published" ? record.published_domain : null,
    default_allowed_scopes: record.default_allowed_scopes,
    callback_url: record.callback_url,
    callback_state: record.callback_state,
    verifier_id: record.verifier_id,
    registry_answers: record.registry_answers,
    created_at: record.created_at.toISOString(),
    expires_at: record.expires_at.toISOString(),
  };
}

/** Converts an agent to its form in API answers. */
export function showAgent(row: AgentRow): AgentAnswer {
  return {
    agent_id: row.agent_id,
    name: row.name,
    agent_type: row.agent_type,
    custody_mode: row.custody_mode,
    public_key_json: row.public_key,
    connection_id: row.connection_id,
    created_at: row.created_at.toISOString(),
    disabled_at: row.disabled_at === null ? null : row.disabled_at.toISOString(),
  };
}
