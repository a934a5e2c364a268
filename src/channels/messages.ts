import type { MailContent } from "../accounts/mailings/texts.ts";
import type { ChannelApp } from "../db/event_tables.ts";

/** A message: the content of a mail, and a link to a page. */
export type Message = Pick<MailContent, "heading" | "paragraphs" | "purpose" | "items" | "after"> & {
  link: { label: string; url: string };
};

/** Maximum length of a text block in characters. Slack accepts 3,000. */
const LONGEST = 2_900;

/** Returns the body of the request that posts a message to an app's incoming webhook. */
export function messageBody(app: ChannelApp, message: Message): string {
  return JSON.stringify(BODIES[app](message));
}

/**
 * Text of strangers goes only where the app does not interpret it, so it forms no link, mention or heading.
 * These places are `plain_text` in Slack, and the runs of a `RichTextBlock` in Teams.
 */
const BODIES: Record<ChannelApp, (message: Message) => object> = {
  slack: (message) => ({
    text: escaped(message.heading),
    unfurl_links: false,
    unfurl_media: false,
    blocks: [
      ...blocksOf(message).map((text) => ({
        type: "section",
        text: { type: "plain_text", emoji: false, text },
      })),
      { type: "section", text: { type: "mrkdwn", text: `<${message.link.url}|${message.link.label}>` } },
    ],
  }),
  teams: (message) => ({
    type: "message",
    attachments: [
      {
        contentType: "application/vnd.microsoft.card.adaptive",
        content: {
          $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
          type: "AdaptiveCard",
          version: "1.4",
          body: blocksOf(message).map((text, place) => ({
            type: "RichTextBlock",
            inlines: [{ type: "TextRun", text, ...(place === 0 && { weight: "Bolder" }) }],
          })),
          actions: [{ type: "Action.OpenUrl", title: message.link.label, url: message.link.url }],
        },
      },
    ],
  }),
};

function blocksOf({ heading, paragraphs, purpose, items, after }: Message): string[] {
  const list = items.map((item) => `• ${typeof item === "string" ? item : `${item.label} ${item.exact}`}`);
  return [heading, ...paragraphs, purpose ?? "", list.join("\n"), after]
    .filter((text) => text !== "")
    .map((text) => (text.length > LONGEST ? `${text.slice(0, LONGEST).toWellFormed()}…` : text));
}

/** Escapes the characters that Slack interprets in the text of a notification. */
function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
