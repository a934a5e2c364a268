import type { AccountEvent, AccountEventOf } from "../../events/kinds.ts";
import { formatUsd } from "../ledger/amounts.ts";
import type { Mail } from "../mail/smtp.ts";

/** Data of the installation in notices: its base URL, its service name, and the contact for more credit. */
export type Place = { baseUrl: string; word: string; contact?: string | undefined };

/** Returns the email about an event: what happened, its consequences, and what to do. Contains no secret. */
export function noticeText(event: AccountEvent, place: Place): Pick<Mail, "subject" | "text"> {
  switch (event.type) {
    case "credits.low":
      return lowCredit(event, place);
    case "webhook.suspended":
      return suspendedWebhook(event, place);
  }
}

function suspendedWebhook(
  event: AccountEventOf<"webhook.suspended">,
  { baseUrl, word }: Place,
): Pick<Mail, "subject" | "text"> {
  const connection = `${baseUrl}/v1/${word}/connections/${event.connection_id}`;
  const why =
    event.reason === "gone"
      ? "it answered 410, which means that it wants no further events."
      : "it has accepted nothing for 120 hours.";
  return {
    subject: "Webhooks of a connection are suspended",
    text: [
      `Since ${minuteOf(event.occurred_at)} ${baseUrl} sends nothing more to the callback URL of the connection`,
      event.connection_id,
      `because ${why}`,
      "",
      "Its events are kept for 30 days and then dropped. Decisions and delegations are not affected.",
      "",
      `To see what was not delivered, and why: GET ${connection}/deliveries`,
      `When the receiver works again: POST ${connection}/callback/resume`,
      "",
    ].join("\n"),
  };
}

function minuteOf(time: string): string {
  return `${time.slice(0, 16).replace("T", " ")} UTC`;
}

function lowCredit(
  event: AccountEventOf<"credits.low">,
  { baseUrl, word, contact }: Place,
): Pick<Mail, "subject" | "text"> {
  const { balance_micro_usd: balance, price_micro_usd: price } = event;
  const left = Math.floor(balance / price);
  const at = minuteOf(event.occurred_at);
  const isOver = event.level === "exhausted";
  const happened = isOver
    ? [
        `Your credit at ${baseUrl} is used up: at ${at} it came to ${formatUsd(balance)} USD,`,
        `and a decision costs ${formatUsd(price)} USD.`,
        "",
        "Until there is more, every verification answers 402 credits_exhausted. No decision is made,",
        "and applications that ask for one refuse what they protect.",
      ]
    : [
        `Your credit at ${baseUrl} is running low: at ${at} it came to ${formatUsd(balance)} USD,`,
        "20 % or less of what it was after the last credit.",
        "",
        `A decision costs ${formatUsd(price)} USD, so that was enough for ${left.toLocaleString("en")} more. When it is used up, every`,
        "verification answers 402 credits_exhausted: no decision is made, and applications that ask for one",
        "refuse what they protect.",
      ];
  return {
    subject: isOver ? "Your credit is used up" : "Your credit is running low",
    text: [
      ...happened,
      "",
      "What to do: ask the people who run this service for more credit. Give them your account id:",
      event.account_id,
      "",
      ...(contact === undefined ? [] : [`They are at ${contact}`, ""]),
      `To see your credit and every charge: GET ${baseUrl}/v1/${word}/credits`,
      "",
    ].join("\n"),
  };
}
