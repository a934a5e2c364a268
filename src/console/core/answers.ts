import type { ApiError } from "../../errors.ts";
import { html, renderDocument } from "../../html/html.ts";
import type { Reply } from "../../http/replies.ts";
import { HIDDEN } from "../../input/plain_text.ts";
import type { Texts } from "../texts/texts.ts";
import { type Frame, layout } from "./layout.ts";
import type { PageFile, Visit } from "./page.ts";
import { ACCOUNT } from "./places.ts";

/** What pages may do: show and send what is their own, and nothing besides. */
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  // A form's `Origin` would be `null` without it.
  "referrer-policy": "same-origin",
};

/** A page as it is sent. */
export function pageReply(frame: Frame, status = 200): Reply {
  return { status, headers: HEADERS, body: renderDocument(layout(frame)) };
}

/** A file as it is sent: a browser stores it and shows nothing of it. */
export function fileReply({ name, type, content, rest }: PageFile): Reply {
  if (!/^[\w-][\w.-]*$/.test(name)) {
    throw new Error("A file's name has letters, digits, `.`, `_` and `-` only");
  }
  const headers = {
    ...HEADERS,
    "content-type": type,
    "content-disposition": `attachment; filename="${name}"`,
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  };
  return { status: 200, headers, body: content, ...(rest && { rest }) };
}

/** Leads to an address with `GET`, whatever was sent. */
export function redirectReply(location: string): Reply {
  return { status: 303, headers: { ...HEADERS, location }, body: "" };
}

/** Leaves a part of an open page as it is. */
export function unchangedReply(): Reply {
  return { status: 204, headers: {}, body: "" };
}

/** Refuses a part of an open page, which is left as it is and says that it is old. */
export function refusedPartReply({ session }: Visit): Reply {
  return { status: session === undefined ? 401 : 403, headers: {}, body: "" };
}

/** The page that says why there is no other. */
export function errorReply(frame: Omit<Frame, "title" | "content">, error: ApiError): Reply {
  const { texts, at, own, acting, session } = frame.visit;
  const home = acting === undefined && session !== undefined ? own(ACCOUNT) : at("/");
  const { title, explain } = texts.errors.pages[error.code] ?? texts.errors.other;
  return pageReply(
    {
      ...frame,
      title,
      content: html`<p>${explain ?? sentence(inWords(texts, error.message))}</p><p><a class="button" href=${home}>${texts.errors.home}</a></p>`,
    },
    error.status,
  );
}

/** A message as a sentence of its own. */
export function sentence(message: string): string {
  const text = `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

const HIDDEN_ONES = new RegExp(HIDDEN, "gu");

/**
 * The API's message in a person's words: without the place that it names first, or what follows on other
 * places. Characters that nobody sees, or that turn the text around them, are named.
 */
export function inWords({ errors }: Texts, message: string): string {
  const place = /^(?:(?:body|query|params|constraints)(?:\.[\w.[\]]+)?|[a-z]+(?:_[a-z]+)+): /;
  const said = place.test(message)
    ? message.replace(place, "").replace(/; (?:body|query)\b.*$/, "")
    : message;
  for (const [pattern, words] of errors.faults) {
    const found = pattern.exec(said);
    if (found !== null) return words(...found.slice(1));
  }
  return said.replaceAll(
    HIDDEN_ONES,
    (each) => `U+${each.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`,
  );
}
