import type { AccountEvent, AccountEventOf } from "../../events/kinds.ts";
import { formatUsd } from "../ledger/amounts.ts";
import { type MailContent, quoted } from "../mailings/texts.ts";

/** Data of the installation in notices: its base URL, its service name, and the contact for more credit. */
export type Place = { baseUrl: string; word: string; contact?: string | undefined };

/** The name of the account's organization, or null for a personal account. */
type Owner = { organization_name: string | null };

/** Returns the mail about an event: what happened, its consequences, and what to do. Contains no secret. */
export function noticeContent(event: AccountEvent, owner: Owner, place: Place): MailContent {
  switch (event.type) {
    case "credits.low":
      return lowCredit(event, owner, place);
    case "webhook.suspended":
      return suspendedWebhook(event, owner);
  }
}

/** Returns the path of a console page about an account, whoever opens it. */
export function pageOf({ account_id }: { account_id: string }, path: string): string {
  return `/console/for/${account_id}${path}`;
}

function reasonFor({ organization_name }: Owner): string {
  return organization_name === null
    ? "You get this mail because it is about your own account."
    : `You get this mail because you are an owner of the organization ${quoted(organization_name)}.`;
}

function suspendedWebhook(event: AccountEventOf<"webhook.suspended">, owner: Owner): MailContent {
  const why =
    event.reason === "gone"
      ? "it answered 410, which means that it wants no further events"
      : "it has accepted nothing for 120 hours";
  return {
    subject: "Webhooks of a connection are suspended",
    heading: "Webhooks of a connection are suspended",
    paragraphs: [
      `Since ${minuteOf(event.occurred_at)} the service sends nothing more to the callback URL of the connection ${event.connection_id}, because ${why}.`,
      "Its events are kept for 30 days and then dropped. Decisions and delegations are not affected.",
    ],
    items: [],
    button: {
      label: "Look at the callback",
      path: pageOf(event, `/connections/${event.connection_id}/callback`),
    },
    after:
      "The page shows what was not delivered, and why. When the receiver works again, resume sending there.",
    reason: reasonFor(owner),
  };
}

function minuteOf(time: string): string {
  return `${time.slice(0, 16).replace("T", " ")} UTC`;
}

function lowCredit(event: AccountEventOf<"credits.low">, owner: Owner, { contact }: Place): MailContent {
  const { balance_micro_usd: balance, price_micro_usd: price } = event;
  const left = Math.floor(balance / price);
  const came = `At ${minuteOf(event.occurred_at)} it came to ${formatUsd(balance)} USD`;
  const isOver = event.level === "exhausted";
  const title = isOver ? "Your credit is used up" : "Your credit is running low";
  const without =
    "every verification answers 402 credits_exhausted. No decision is made, and applications that ask for one refuse what they protect.";
  const happened = isOver
    ? [`${came}, and a decision costs ${formatUsd(price)} USD.`, `Until there is more, ${without}`]
    : [
        `${came}, 20\u00a0% or less of what it was after the last credit.`,
        `A decision costs ${formatUsd(price)} USD, so that was enough for ${left.toLocaleString("en")} more. When it is used up, ${without}`,
      ];
  const people = contact === undefined ? "" : ` (${contact})`;
  return {
    subject: title,
    heading: title,
    paragraphs: [
      ...happened,
      `What to do: ask the people who run this service${people} for more credit, and give them your account id: ${event.account_id}`,
    ],
    items: [],
    button: { label: "Look at your credit", path: pageOf(event, "/credit") },
    after: "The page shows every charge.",
    reason: reasonFor(owner),
  };
}
