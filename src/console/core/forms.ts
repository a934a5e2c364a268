import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { ApiError } from "../../errors.ts";
import { HIDDEN } from "../../input/plain_text.ts";
import type { Texts } from "../texts/texts.ts";

/** The fields of a submitted form. */
export type Fields = {
  /** Returns a field's value, or an empty string if there is no such field. */
  get(name: string): string;
  /** Returns all values of a field, for instance of checked boxes. */
  all(name: string): string[];
  /** Returns all names and values in the order in which they were sent. */
  pairs(): [string, string][];
};

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(;\s*charset="?utf-8"?\s*)?$/i;

/** Creates `Fields` from names and values. */
export function fieldsOf(pairs: Iterable<[string, string]>): Fields {
  const held = new URLSearchParams([...pairs]);
  return {
    get: (name) => held.get(name) ?? "",
    all: (name) => held.getAll(name),
    pairs: () => [...held],
  };
}

/** Parses the body of a submitted form. Throws `invalid_request` for a body that no form of a page sends. */
export function readFields(contentType: string | undefined, body: Buffer): Fields {
  if (!FORM_TYPE.test(contentType ?? "")) {
    throw new ApiError("invalid_request", "content-type: must be application/x-www-form-urlencoded");
  }
  const text = body.toString("utf8");
  if (text.includes("%00") || text.includes("\0")) {
    throw new ApiError("invalid_request", "body: must not contain U+0000");
  }
  return fieldsOf(new URLSearchParams(text));
}

/** Splits an `invalid_request` message into one message for each field of the body, by field name. */
export function faultsByField(message: string): Map<string, string> {
  const faults = [...message.matchAll(/(?:^|; )body\.([\w.[\]]+): (.+?)(?=; body\.|$)/g)];
  return new Map(faults.map(([, field = "", fault = ""]) => [field, fault]));
}

/** The notice about an action can be shown for this many seconds. */
export const NOTICE_SECONDS = 60;

/**
 * Returns the CSRF token for a browser in which nobody is signed in. It is derived from the browser's sign-in
 * cookie, which another site can neither read nor send.
 */
export function browserToken(cookie: string): string {
  return hash("sha256", `console form ${cookie}`, "base64url");
}

/** Returns whether a form's token was derived from the sign-in cookie. */
export function isOfBrowser(token: string, cookie: string | undefined): boolean {
  return cookie !== undefined && isEqual(token, browserToken(cookie));
}

/**
 * Returns a URL value that shows a notice: its name and a proof that this service created it for this browser
 * at this time. `key` is the browser's CSRF token. A URL made up by someone else shows no notice.
 */
export function provenNotice(notice: string, key: string, now: Date): string {
  const made = Math.floor(now.getTime() / 1000).toString(36);
  return `${notice}.${made}.${proofOf(`${notice}.${made}`, key)}`;
}

/** Returns a notice's name if its proof is recent and valid for this browser. */
export function noticeIn(text: string, key: string, now: Date): string | undefined {
  const [, notice = "", made = "", proof = ""] = /^(\w+)\.([0-9a-z]{1,9})\.([\w-]+)$/.exec(text) ?? [];
  const age = now.getTime() / 1000 - Number.parseInt(made, 36);
  const isNew = age > -NOTICE_SECONDS && age < NOTICE_SECONDS;
  return key !== "" && isNew && isEqual(proof, proofOf(`${notice}.${made}`, key)) ? notice : undefined;
}

function proofOf(text: string, key: string): string {
  return createHmac("sha256", key).update(`console notice ${text}`).digest("base64url").slice(0, 22);
}

function isEqual(one: string, other: string): boolean {
  const [given, right] = [one, other].map((text) => hash("sha256", text, "buffer"));
  return given !== undefined && right !== undefined && timingSafeEqual(given, right);
}

/** Converts a message to a sentence with an initial capital and a period. */
export function sentence(message: string): string {
  const text = `${message.charAt(0).toUpperCase()}${message.slice(1)}`;
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

const HIDDEN_ONES = new RegExp(HIDDEN, "gu");

/**
 * Returns the API's message in plain words. Omits the field's name and messages about other fields.
 * Replaces invisible characters, and characters that reverse the surrounding text, with code points.
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
