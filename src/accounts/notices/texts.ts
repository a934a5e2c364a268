import type { AccountEvent } from "../../events/account_kinds.ts";
import { formatUsd } from "../ledger/usd.ts";
import type { Mail } from "../mail/mailer.ts";

/** What a notice says besides its event: where the service is. */
export type Place = { baseUrl: string; word: string };

/** The mail about an event: what happened, what follows, what to do. It has no secret in it. */
export function noticeText(event: AccountEvent, place: Place): Pick<Mail, "subject" | "text"> {
  switch (event.type) {
    case "credits.low":
      return lowCredit(event, place);
  }
}

function lowCredit(event: AccountEvent, { baseUrl, word }: Place): Pick<Mail, "subject" | "text"> {
  const { balance_micro_usd: balance, price_micro_usd: price } = event;
  const left = Math.floor(balance / price);
  const at = `${event.occurred_at.slice(0, 16).replace("T", " ")} UTC`;
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
      "What to do: ask the people who run this service for more credit. Name your account:",
      event.account_id,
      "",
      `What you have now, and every charge: GET ${baseUrl}/v1/${word}/credits`,
      "",
    ].join("\n"),
  };
}
