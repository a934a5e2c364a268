import { z } from "zod";
import { ApiError, isGeneral } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import {
  type Fields,
  faultsByField,
  fieldsOf,
  inWords,
  isOfBrowser,
  provenNotice,
  sentence,
} from "./forms.ts";
import type { Failure, Form, Outcome, Page, Visit } from "./page.ts";
import { CONSOLE, isConsolePath, RENEW, withQuery } from "./places.ts";

/** A form that was refused, to be shown again. */
type Refused = { failure: Failure; status: number };

/** Does what a form asks for. */
export async function submitForm(page: Page, visit: Visit, sent: Fields): Promise<Outcome | Refused> {
  const name = sent.get("form");
  const forms = "forms" in page ? page.forms : undefined;
  const form = Object.hasOwn(forms ?? {}, name) ? forms?.[name] : undefined;
  if (form === undefined) throw new ApiError("invalid_request", "form: this page has no such form");
  const unchanged = { form: name, message: "", fields: new Map(), typed: sent, said: new Set<string>() };
  const held = heldBack(page, visit, sent);
  if (held !== undefined) return held;
  if (form.carries) return { failure: unchanged, status: 200 };
  try {
    if (page.boundTo === "browser" && !isOfBrowser(sent.get("csrf"), visit.cookie("sign_in"))) {
      throw new ApiError("csrf_failed", visit.texts.errors.noCookie);
    }
    const outcome = await form.submit(visit, sent);
    if (outcome === "again") return { failure: unchanged, status: 200 };
    return withNotice(outcome, visit, page);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (page.boundTo !== "browser" && isOfSession(error)) return keptForm(visit, sent, "stale");
    return { failure: failureOf(error, { form, name }, { visit, sent }), status: error.status };
  }
}

/** The page that comes instead of a form of another person than who is signed in by now. */
function heldBack({ boundTo }: Page, visit: Visit, sent: Fields): Outcome | undefined {
  if (boundTo !== "browser") return isOfAnother(visit, sent) ? foreignForm(visit) : undefined;
  // Somebody has signed in in another tab meanwhile.
  return visit.session === undefined ? undefined : sendAgain(visit, sent.get("kept"));
}

/** Refusals that a renewed session mends: the form itself came from a page of ours. */
function isOfSession({ code }: ApiError): boolean {
  return code === "csrf_failed" || code === "auth_required";
}

/** An outcome whose address carries its notice. */
export function withNotice(outcome: Outcome, visit: Visit, { boundTo }: Page): Outcome {
  if (!("to" in outcome) || outcome.notice === undefined) return outcome;
  const [path = "", query = ""] = outcome.to.split("?");
  const key = boundTo === "browser" ? visit.formToken : (visit.cookie("csrf") ?? "");
  const notice = key === "" ? outcome.notice : provenNotice(outcome.notice, key, visit.now);
  return { to: withQuery(path, { ...Object.fromEntries(new URLSearchParams(query)), notice }) };
}

/** Whether the form's idempotency key was used for something else: another one is needed. */
function isSpent(error: ApiError): boolean {
  return error.code === "idempotency_conflict" && isGeneral(error);
}

/** Whether the first call with the form's key may still end. */
function isStillRunning(error: ApiError): boolean {
  return error.code === "idempotency_conflict" && !isSpent(error);
}

/** Whether it is not known if a call had an effect. What an operation says in its own words, it knows. */
function isEndUnknown(error: ApiError): boolean {
  return (error.code === "unavailable" || error.code === "internal") && isGeneral(error);
}

function failureOf(
  error: ApiError,
  { form, name }: { form: Form; name: string },
  { visit, sent }: { visit: Visit; sent: Fields },
): Failure {
  const { messages } = visit.texts.errors;
  const unknown = isEndUnknown(error) ? visit.texts.kept.unknown(sent.get("key") !== "") : undefined;
  const known = isStillRunning(error) ? visit.texts.kept.running : messages[error.code];
  const said = unknown ?? known ?? inWords(visit.texts, error.message);
  const faults = error.code === "invalid_request" ? faultsByField(error.message) : new Map<string, string>();
  const field = form.errorFields?.[error.code];
  const named = field === undefined ? faults : new Map([[field, said.replace(`${field}: `, "")]]);
  const own = form.faults?.(visit.texts) ?? {};
  const fields = new Map(
    [...named].map(([key, text]) => [
      key,
      sentence((faults.has(key) && own[key]) || inWords(visit.texts, text)),
    ]),
  );
  const message = fields.size === 0 ? sentence(said) : visit.texts.errors.lookBelow;
  return { form: name, message, fields, typed: sent, said: new Set(), isSpent: isSpent(error) };
}

/** The field of every form that says as whom it was written: their account id. */
export const WRITER = "person";

/** A form that came in after the session's end, as it is carried from page to page until it is sent again. */
const kept = z.object({
  path: z.string().refine(isConsolePath),
  fields: z.array(z.tuple([z.string(), z.string()])).max(2_000),
});

/** What is kept of a form that is to be sent again to this page. */
function keep(path: string, sent: Fields): string {
  return JSON.stringify({ path, fields: sent.pairs().filter(([name]) => name !== "csrf") });
}

/** A hidden field with a kept form; nothing without one. */
export function keptField(text: string): Html | undefined {
  return text === "" ? undefined : html`<input type="hidden" name="kept" value=${text} />`;
}

/**
 * The page that holds a form back: `ended`, until the session is renewed; `stale`, until it is sent again
 * with the token of the session that there is by now. It is never sent without the person's doing.
 */
export function keptForm(visit: Visit, sent: Fields, why: "ended" | "stale"): Outcome {
  const path = pathOf(visit);
  if (why === "stale") return sendAgain(visit, keep(path, sent)) ?? { to: path };
  const { texts } = visit;
  return {
    title: texts.kept.endedTitle,
    content: html`<p>${texts.kept.ended}</p>
      <form method="post" action=${visit.own(RENEW)}>
        <input type="hidden" name="form" value="renew" />
        <input type="hidden" name="csrf" value=${visit.cookie("csrf")} />
        <input type="hidden" name="return_to" value=${path} />
        ${keptField(keep(path, sent))}
        <button type="submit" autofocus>${texts.kept.renew}</button>
      </form>`,
  };
}

/** Whether a form was written while somebody else was signed in than who is by now. */
function isOfAnother({ session }: Visit, sent: Fields): boolean {
  const writer = sent.get(WRITER);
  return session !== undefined && writer !== "" && writer !== session.account_id;
}

/** The page that says that a form was written as somebody else. It cannot be sent from there. */
function foreignForm({ texts: { kept: words, errors }, session, own }: Visit): Outcome {
  return {
    status: 403,
    title: words.foreignTitle,
    content: html`<p>${words.foreign(session?.email ?? "")}</p><p>${words.foreignHow}</p>
      <p><a class="button" href=${own(CONSOLE)}>${errors.home}</a></p>`,
  };
}

/**
 * The page from which a kept form is sent again by who is signed in and wrote it; nothing when there is none,
 * or it is not one of ours.
 */
export function sendAgain(visit: Visit, text: string): Outcome | undefined {
  const read = text === "" ? undefined : kept.safeParse(readJson(text)).data;
  if (read === undefined) return undefined;
  const { texts } = visit;
  const held = fieldsOf(read.fields);
  if (isOfAnother(visit, held)) return foreignForm(visit);
  const fields = held.pairs().filter(([name]) => name !== "csrf");
  return {
    title: texts.kept.title,
    content: html`<p>${texts.kept.explain}</p>
      ${again(visit, visit.own(read.path), [...fields, ["csrf", visit.cookie("csrf") ?? ""]])}`,
  };
}

type Unanswered = { visit: Visit; sent: Fields; isSubmitted: boolean; error: ApiError };

/**
 * The page for a form that got no answer, from which it is sent again as it is: whether it was done is known
 * only where it was not begun.
 */
export function unansweredForm({ visit, sent, isSubmitted, error }: Unanswered) {
  const { kept: words, errors } = visit.texts;
  return {
    title: (errors.pages[error.code] ?? errors.other).title,
    content: html`<p>${isSubmitted ? words.unknown(sent.get("key") !== "") : words.undone} ${words.isKept}</p>
      ${again(visit, visit.here, sent.pairs())}`,
  };
}

function again({ texts: { kept: words } }: Visit, action: string, fields: [string, string][]): Html {
  return html`<form method="post" action=${action}>
    ${fields.map(([name, value]) => html`<input type="hidden" name=${name} value=${value} />`)}
    <p class="actions">
      <button type="submit" autofocus>${words.again}</button>
      <a href=${action}>${words.discard}</a>
    </p>
  </form>`;
}

function pathOf(visit: Visit): string {
  const root = visit.own("");
  return visit.here.slice(root.length);
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
