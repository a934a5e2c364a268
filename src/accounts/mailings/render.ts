import { html, inlineStyle, type Piece, renderDocument } from "../../html/html.ts";
import { rootOf } from "../../input/url.ts";
import type { Mail } from "../mail/smtp.ts";
import { type ExactItem, type MailContent, unlinked } from "./texts.ts";

const STYLE = `
body { margin: 0; padding: 24px 12px; background: #eef0ee; color: #17211c; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 560px; margin: 0 auto; padding: 24px; overflow-wrap: anywhere; background: #fff; border: 1px solid #dde2de; border-radius: 12px }
h1 { margin: 0 0 16px; font-size: 20px; line-height: 1.3 }
ul { padding-left: 20px }
a.button { display: inline-block; margin: 8px 0; padding: 12px 18px; border-radius: 10px; background: #0f5c42; color: #fff; font-weight: bold; text-decoration: none }
.quiet { color: #57615b; font-size: 14px }
footer { margin-top: 20px; padding-top: 12px; border-top: 1px solid #dde2de }
@media (prefers-color-scheme: dark) {
  body { background: #101412; color: #e6ebe8 } main { background: #181d1a; border-color: #2c342f }
  .quiet { color: #a7b1ab } footer { border-color: #2c342f } a { color: #7fd0ae } a.button { background: #1f7a5a; color: #fff }
}`;

/** The service's base URL, and the addresses at which a person can stop mails of this kind, if they can. */
type MailPlace = { baseUrl: string; stop?: { page: string; call: string } };

const WHAT = "Deputize records what people let software do for them, and stops it when they say so.";
const STOP = "Stop mails of this kind";
const SETTINGS = "Mail settings";

/**
 * Returns the mail with a text part and an HTML part of the same content. With `stop`, a mail program can
 * stop mails of this kind with one click (RFC 8058).
 */
export function renderMail(content: MailContent, { baseUrl, stop }: MailPlace): Omit<Mail, "id" | "to"> {
  const root = rootOf(baseUrl);
  const { subject, heading, paragraphs, items, purpose, button, after, reason } = content;
  const settings = `${root}/console/account`;
  return {
    subject,
    ...(stop && {
      headers: {
        "List-Unsubscribe": `<${root}${stop.call}>`,
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
      },
    }),
    text: [
      heading,
      ...paragraphs,
      ...(items.length > 0 ? [items.map((item) => `- ${textOf(item)}`).join("\n")] : []),
      ...(purpose === undefined ? [] : [purpose]),
      `${button.label}: ${root}${button.path}`,
      ...(after === "" ? [] : [after]),
      `-- \n${reason}\n${WHAT}${stop === undefined ? "\n" : ""}`,
      ...(stop === undefined ? [] : [`${SETTINGS}: ${settings}\n${STOP}: ${root}${stop.page}\n`]),
    ].join("\n\n"),
    html: renderDocument(html`<html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <meta name="color-scheme" content="light dark" />
        <meta name="format-detection" content="telephone=no, date=no, address=no, email=no, url=no" />
        <title>${subject}</title>
        ${inlineStyle(STYLE)}
      </head>
      <body>
        <main>
          <h1>${heading}</h1>
          ${paragraphs.map((paragraph) => html`<p>${paragraph}</p>`)}
          ${items.length > 0 && html`<ul>${items.map((item) => html`<li>${htmlOf(item)}</li>`)}</ul>`}
          ${purpose !== undefined && html`<p>${purpose}</p>`}
          <p><a class="button" href=${`${root}${button.path}`}>${button.label}</a></p>
          ${after !== "" && html`<p class="quiet">${after}</p>`}
          <footer class="quiet">
            <p>${reason} ${WHAT}</p>
            ${stop && html`<p><a href=${settings}>${SETTINGS}</a>${" · "}<a href=${`${root}${stop.page}`}>${STOP}</a></p>`}
          </footer>
        </main>
      </body>
    </html>`),
  };
}

function textOf(item: string | ExactItem): string {
  return typeof item === "string" ? item : `${item.label}: ${item.exact}`;
}

/** Puts the parts of an exact name in elements of their own, so that mail programs recognize no link. */
function htmlOf(item: string | ExactItem): Piece {
  if (typeof item === "string") return item;
  const parts = unlinked(item.exact).split("\u2060");
  return html`${`${item.label}: `}<code>${parts.map((part) => html`<span>${part}</span>`)}</code>`;
}
