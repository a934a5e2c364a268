import { createHmac, hash, timingSafeEqual } from "node:crypto";
import { ApiError } from "../../errors.ts";
import { HIDDEN } from "../../input/plain_text.ts";
import type { Texts } from "../texts/texts.ts";

/** What a form carried. */
export type Fields = {
  /** A field's value; empty when it is not there. */
  get(name: string): string;
  /** Every value of a field: of the boxes that were ticked, for instance. */
  all(name: string): string[];
  /** All pairs in the order they were sent. */
  pairs(): [string, string][];
};

const FORM_TYPE = /^application\/x-www-form-urlencoded\s*(;\s*charset="?utf-8"?\s*)?$/i;

/** Fields of pairs. */
export function fieldsOf(pairs: Iterable<[string, string]>): Fields {
  const held = new URLSearchParams([...pairs]);
  return {
    get: (name) => held.get(name) ?? "",
    all: (name) => held.getAll(name),
    pairs: () => [...held],
  };
}

/** The fields of a form's body. Throws `invalid_request` for a body that no form of a page sends. */
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

/** Messages of an `invalid_request` by the field that each names, with the name it has in the body. */
export function faultsByField(message: string): Map<string, string> {
  const faults = [...message.matchAll(/(?:^|; )body\.([\w.[\]]+): (.+?)(?=; body\.|$)/g)];
  return new Map(faults.map(([, field = "", fault = ""]) => [field, fault]));
}

/** Seconds after an act in which its notice is shown. */
export const NOTICE_SECONDS = 60;

/**
 * The token of a form that is bound to a browser before anybody is signed in there, made of the browser's
 * sign-in cookie: another site can neither read nor send that cookie.
 */
export function browserToken(cookie: string): string {
  return hash("sha256", `console form ${cookie}`, "base64url");
}

/** Whether a form carried the token of this cookie. */
export function isOfBrowser(token: string, cookie: string | undefined): boolean {
  return cookie !== undefined && isEqual(token, browserToken(cookie));
}

/**
 * A notice as an address carries it: its name, and a proof that it was made for this browser, whose token the
 * key is, at this moment. An address that somebody else made up says nothing.
 */
export function provenNotice(notice: string, key: string, now: Date): string {
  const made = Math.floor(now.getTime() / 1000).toString(36);
  return `${notice}.${made}.${proofOf(`${notice}.${made}`, key)}`;
}

/** The name of a notice that was proven for this browser just now. */
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
