import type { ApiError } from "../../errors.ts";
import { type Html, html, renderDocument } from "../../html/html.ts";
import type { Reply } from "../../http/exchange/replies.ts";
import { type Frame, layout } from "./layout.ts";
import type { Visit } from "./page.ts";

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

/** Leads to an address with `GET`, whatever was sent. */
export function redirectReply(location: string): Reply {
  return { status: 303, headers: { ...HEADERS, location }, body: "" };
}

/** The page that says why there is no other. */
export function errorReply(frame: Omit<Frame, "title" | "content">, error: ApiError): Reply {
  const { texts, at } = frame.visit;
  const { title, explain } = texts.errors.pages[error.code] ?? texts.errors.other;
  const reply = pageReply(
    {
      ...frame,
      title,
      content: html`<p>${explain ?? sentence(error.message)}</p><p><a class="button" href=${at("/")}>${texts.errors.home}</a></p>`,
    },
    error.status,
  );
  return { ...reply, headers: { ...HEADERS, ...error.headers } };
}

/** A message as a sentence of its own. */
export function sentence(message: string): string {
  const text = `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

/** What a form was refused for, above it. */
export function refusal(visit: Visit, form: string): Html | undefined {
  const { failure } = visit;
  if (failure === undefined || failure.form !== form || failure.message === "") return undefined;
  return html`<p class="refusal" role="alert">${failure.message}</p>`;
}
