import type { Clock } from "../../clock.ts";
import { isAccountEventType, readAccountEvent } from "../../events/account_kinds.ts";
import type { Consumer } from "../../events/bus.ts";
import type { Reader } from "../../events/published.ts";

/** What the consumer is called, and what it reads. */
export const noticeReader = { name: "notices", aggregateType: "account" } as const satisfies Reader;

/**
 * The consumer that makes one notice of each account's event, due immediately. It sends nothing: the role
 * that reaches the mail server does. Kinds that this version does not know are left alone; a payload that is
 * not its kind's is refused.
 */
export function createNoticeConsumer({ clock }: { clock: Clock }): Consumer {
  return {
    ...noticeReader,
    async handle(tx, events) {
      const now = clock.now();
      const rows = events.flatMap(({ eventId, type, aggregateId, payload, createdAt }) => {
        if (!isAccountEventType(type)) return [];
        readAccountEvent(type, payload);
        return [
          {
            event_id: eventId,
            account_id: aggregateId,
            type,
            payload,
            state: "waiting" as const,
            next_attempt_at: now,
            created_at: createdAt,
          },
        ];
      });
      if (rows.length > 0) await tx("notices").insert(rows).onConflict("event_id").ignore();
    },
  };
}
