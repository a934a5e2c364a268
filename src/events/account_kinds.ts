import { z } from "zod";

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
