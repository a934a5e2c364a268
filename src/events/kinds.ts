import { z } from "zod";

const text = z.string().min(1);
const scopes = z.array(text);
const delegation = { request_id: text, connection_id: text, org_id: text, agent_id: text };

/**
 * Every event kind: what it means, its fields, and the secrets that its webhook body carries besides them
 * (specification §6). The webhook bodies, the OpenAPI webhooks and `docs/events.md` follow this table.
 */
export const eventKinds = {
  "connection.created": {
    meaning: "A platform connection was created",
    fields: z.strictObject({
      connection_id: text,
      platform_id: text,
      org_id: text,
      org_name: z.string(),
      allowed_scopes: scopes,
      callback_url: text.nullable(),
    }),
    secrets: ["api_key", "webhook_signing_secret"],
  },
  "connection.key_rotated": {
    meaning: "The connection's API key was rotated",
    fields: z.strictObject({ connection_id: text, api_key_prefix: text, previous_prefix: text }),
    secrets: [],
  },
  "connection.removed": {
    meaning: "Connection removed",
    fields: z.strictObject({ connection_id: text, org_id: text, removed_at: text }),
    secrets: [],
  },
  "delegation.approved": {
    meaning: "A human approved a request",
    fields: z.strictObject({
      ...delegation,
      approved_scope: scopes,
      cert_json: z.json(),
      delegation_key_statement: z.json(),
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
      connection_id: text,
      org_id: text,
      reason: z.string().nullable(),
    }),
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
