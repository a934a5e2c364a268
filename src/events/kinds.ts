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

/**
 * Event kinds that happen to an account rather than to one of its connections, and their fields. They go
 * through the outbox with the aggregate `account`, numbered by `balances.next_event_seq`, and never to a
 * callback URL: their owner gets a mail.
 */
export const accountEventKinds = {
  /** A decision's charge left the balance low, or too small for one more decision (`exhausted`). */
  "credits.low": z.strictObject({
    account_id: z.uuid(),
    level: z.enum(["low", "exhausted"]).describe("exhausted: too little for one more decision"),
    balance_micro_usd: z.int().describe("What is left, in millionths of a US dollar"),
    low_at_micro_usd: z.int().describe("The balance from which on it is low"),
    price_micro_usd: z.int().describe("What one decision costs"),
    occurred_at: z.iso.datetime(),
  }),
  /** A connection's endpoint was suspended: its receiver said 410 (`gone`), or took nothing for 120 hours. */
  "webhook.suspended": z.strictObject({
    account_id: z.uuid(),
    connection_id: z.uuid(),
    reason: z.enum(["gone", "failing"]),
    occurred_at: z.iso.datetime(),
  }),
} as const satisfies Record<string, z.ZodObject>;

/** The name of such a kind. */
export type AccountEventType = keyof typeof accountEventKinds;

/** Whether a name is that of an account's event kind. */
export function isAccountEventType(type: string): type is AccountEventType {
  return Object.hasOwn(accountEventKinds, type);
}

/** What an event of one of these kinds says, read from its payload. */
export type AccountEventOf<T extends AccountEventType> = { type: T } & z.infer<(typeof accountEventKinds)[T]>;

/** What an account's event says. */
export type AccountEvent = { [T in AccountEventType]: AccountEventOf<T> }[AccountEventType];

/** Reads the payload of an account's event. Throws when it is not what its kind says. */
export function readAccountEvent<T extends AccountEventType>(
  type: T,
  payload: string,
): Extract<AccountEvent, { type: T }> {
  const { event, ...fields } = JSON.parse(payload);
  if (event !== type) throw new Error(`The payload does not match the event type ${type}`);
  return { type, ...accountEventKinds[type].parse(fields) } as Extract<AccountEvent, { type: T }>;
}
