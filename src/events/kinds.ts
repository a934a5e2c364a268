import { z } from "zod";

const text = z.string().min(1);
const scopes = z.array(text);
const connectionId = text.describe("The connection that the event belongs to");
const accountId = text.describe("The account's id");
const narrowKey = {
  connection_id: connectionId,
  api_key_prefix: text,
  role: z.enum(["agent", "verify"]),
  agent_id: text.nullable().describe("The agent of an agent key"),
};
const delegation = { request_id: text, connection_id: connectionId, org_id: accountId, agent_id: text };

/**
 * Every kind of event: its meaning, its fields, and the secrets that only its webhook body contains. The
 * kinds are those of specification §6, and some of ours, such as `connection.changed` and `callback.test`.
 * The webhook bodies and the documentation follow this table.
 */
export const eventKinds = {
  "connection.created": {
    meaning: "A platform connection was created, at the registration or by a customer",
    fields: z.strictObject({
      connection_id: connectionId,
      platform_id: text,
      org_id: accountId,
      org_name: z.string().describe("The account's name, for people"),
      allowed_scopes: scopes.describe("The platform's ceiling, or the scopes that the customer chose"),
      callback_url: text.nullable().describe("The URL that receives its webhooks; null if none does"),
    }),
    secrets: ["api_key", "webhook_signing_secret"],
  },
  "connection.changed": {
    meaning: "The customer narrowed the scopes, or connected again with others",
    fields: z.strictObject({
      connection_id: connectionId,
      org_id: accountId,
      allowed_scopes: scopes.describe("The scopes that the customer allows from now on, expanded"),
    }),
    secrets: [],
  },
  "connection.key_rotated": {
    meaning: "The connection's API key was rotated",
    fields: z.strictObject({ connection_id: connectionId, api_key_prefix: text, previous_prefix: text }),
    secrets: [],
  },
  "connection.key_created": {
    meaning: "An agent key or a verify key was created",
    fields: z.strictObject({
      ...narrowKey,
      made_with: text.nullable().describe("Prefix of the key that created it, or operator; null: a person"),
    }),
    secrets: [],
  },
  "connection.key_ended": {
    meaning: "An agent key or a verify key ends, alone",
    fields: z.strictObject({
      ...narrowKey,
      ended_at: text.describe("When it ends: after the grace period if it was replaced"),
      ended_with: text.nullable().describe("Prefix of the key that ended it, or operator; null: a person"),
    }),
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
      approved_scope: scopes.describe("The granted scopes, which may be fewer than requested"),
      cert_json: z.json().meta({ type: "object", description: "The certificate, in its wire format" }),
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
      reason: z.string().nullable().describe("The reason that the person gave, or null"),
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

/** The name of an event kind, which a webhook body contains as `event`. */
export type EventType = keyof typeof eventKinds;

/** The fields of one kind of event, without `event` and without secrets. */
export type EventFields<T extends EventType> = z.infer<(typeof eventKinds)[T]["fields"]>;

type EventSecrets<T extends EventType> = (typeof eventKinds)[T]["secrets"][number];

type EventOf<T extends EventType> = { type: T; connectionId: string; fields: EventFields<T> } & ([
  EventSecrets<T>,
] extends [never]
  ? { secrets?: never }
  : { secrets: Record<EventSecrets<T>, string> });

/** An event of a connection or of its delegations. `fields.connection_id` equals `connectionId`. */
export type LifecycleEvent = { [T in EventType]: EventOf<T> }[EventType];

/**
 * Kinds of events that belong to an account instead of a connection. They never go to a callback URL: the
 * account's owner gets an email. `balances.next_event_seq` numbers them.
 */
export const accountEventKinds = {
  /** After the charge, the balance is low, or too small for a further decision (`exhausted`). */
  "credits.low": z.strictObject({
    account_id: z.uuid(),
    level: z.enum(["low", "exhausted"]).describe("exhausted: too little for one more decision"),
    balance_micro_usd: z.int().describe("The remaining balance, in millionths of a US dollar"),
    low_at_micro_usd: z.int().describe("The balance at or below which it counts as low"),
    price_micro_usd: z.int().describe("The price of one decision"),
    occurred_at: z.iso.datetime(),
  }),
  /** The worker suspended an endpoint that answered 410 (`gone`), or accepted nothing for 120 hours. */
  "webhook.suspended": z.strictObject({
    account_id: z.uuid(),
    connection_id: z.uuid(),
    reason: z.enum(["gone", "failing"]),
    occurred_at: z.iso.datetime(),
  }),
} as const satisfies Record<string, z.ZodObject>;

/** The name of a kind of account event. */
export type AccountEventType = keyof typeof accountEventKinds;

/** Returns whether a name is a kind of account event. */
export function isAccountEventType(type: string): type is AccountEventType {
  return Object.hasOwn(accountEventKinds, type);
}

/** An account event of one kind, read from its payload. */
export type AccountEventOf<T extends AccountEventType> = { type: T } & z.infer<(typeof accountEventKinds)[T]>;

/** An account event of any kind. */
export type AccountEvent = { [T in AccountEventType]: AccountEventOf<T> }[AccountEventType];

/** Reads the payload of an account event. Throws if it does not match the schema of its kind. */
export function readAccountEvent<T extends AccountEventType>(
  type: T,
  payload: string,
): Extract<AccountEvent, { type: T }> {
  const { event, ...fields } = JSON.parse(payload);
  if (event !== type) throw new Error(`The payload does not match the event type ${type}`);
  return { type, ...accountEventKinds[type].parse(fields) } as Extract<AccountEvent, { type: T }>;
}
