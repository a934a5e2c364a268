import { z } from "zod";

const text = z.string().min(1);
const scopes = z.array(text);
const connectionId = text.describe("The connection that it happened to");
const accountId = text.describe("The account's id");
const delegation = { request_id: text, connection_id: connectionId, org_id: accountId, agent_id: text };

/**
 * Every event kind: what it means, its fields, and the secrets that its webhook body carries besides them
 * (specification §6, and `callback.test` of our own). The webhook bodies, the schemas in `docs/events/`, the
 * AsyncAPI document and `docs/events.md` follow this table.
 */
export const eventKinds = {
  "connection.created": {
    meaning: "A platform connection was created",
    fields: z.strictObject({
      connection_id: connectionId,
      platform_id: text,
      org_id: accountId,
      org_name: z.string().describe("The account's name, for people"),
      allowed_scopes: scopes.describe("The platform's ceiling"),
      callback_url: text.nullable().describe("Where its webhooks go; null: nowhere"),
    }),
    secrets: ["api_key", "webhook_signing_secret"],
  },
  "connection.key_rotated": {
    meaning: "The connection's API key was rotated",
    fields: z.strictObject({ connection_id: connectionId, api_key_prefix: text, previous_prefix: text }),
    secrets: [],
  },
  "connection.removed": {
    meaning: "Connection removed",
    fields: z.strictObject({ connection_id: connectionId, org_id: accountId, removed_at: text }),
    secrets: [],
  },
  "delegation.approved": {
    meaning: "A human approved a request",
    fields: z.strictObject({
      ...delegation,
      approved_scope: scopes.describe("What was granted, of what was asked for"),
      cert_json: z.json().meta({ type: "object", description: "The certificate, as the wire format has it" }),
      delegation_key_statement: z.json().meta({
        type: ["object", "null"],
        description: "The vault's attestation of the agent's key; null where the agent keeps its own key",
      }),
    }),
    secrets: [],
  },
  "delegation.denied": {
    meaning: "A request was denied",
    fields: z.strictObject(delegation),
    secrets: [],
  },
  "delegation.revoked": {
    meaning: "A certificate was revoked",
    fields: z.strictObject({
      cert_id: text,
      agent_id: text,
      connection_id: connectionId,
      org_id: accountId,
      reason: z.string().nullable().describe("What was given as the reason, if anything was"),
    }),
    secrets: [],
  },
  "callback.test": {
    meaning: "The account's owner asked for a test of the callback URL",
    fields: z.strictObject({ connection_id: connectionId, org_id: accountId, sent_at: text }),
    secrets: [],
  },
} as const satisfies Record<string, EventKind>;

type EventKind = { meaning: string; fields: z.ZodObject; secrets: readonly string[] };

/** The name of an event kind, as the `event` member of a webhook body has it. */
export type EventType = keyof typeof eventKinds;

/** The fields of one kind of event, without `event` and without secrets. */
export type EventFields<T extends EventType> = z.infer<(typeof eventKinds)[T]["fields"]>;

type EventSecrets<T extends EventType> = (typeof eventKinds)[T]["secrets"][number];

type EventOf<T extends EventType> = { type: T; connectionId: string; fields: EventFields<T> } & ([
  EventSecrets<T>,
] extends [never]
  ? { secrets?: never }
  : { secrets: Record<EventSecrets<T>, string> });

/**
 * Something that happened to a connection or its delegations. `fields.connection_id` equals `connectionId`.
 */
export type LifecycleEvent = { [T in EventType]: EventOf<T> }[EventType];
