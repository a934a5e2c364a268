import { ApiError, isGeneral } from "../../errors.ts";
import { type Fields, faultsByField, inWords, isOfBrowser, provenNotice, sentence } from "./forms.ts";
import { foreignForm, isOfAnother, keptForm, sendAgain } from "./kept_forms.ts";
import type { Failure, Form, Outcome, Page, Visit } from "./page.ts";
import { withQuery } from "./places.ts";

type Refused = { failure: Failure; status: number };

/** Performs the action of a submitted form. Returns what to show next. */
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
    if (page.boundTo !== "browser" && isOfSession(error)) return keptForm({ page, visit }, sent, "stale");
    return { failure: failureOf(error, { form, name }, { visit, sent }), status: error.status };
  }
}

/** Returns the page to show instead of performing the action, if a different person filled in the form. */
function heldBack({ boundTo }: Page, visit: Visit, sent: Fields): Outcome | undefined {
  if (boundTo !== "browser") return isOfAnother(visit, sent) ? foreignForm(visit) : undefined;
  // Somebody has meanwhile signed in, in a different tab.
  return visit.session === undefined ? undefined : sendAgain(visit, sent.get("kept"));
}

/** Returns whether the session or its token caused the error, so that sending the form again can help. */
function isOfSession({ code }: ApiError): boolean {
  return code === "csrf_failed" || code === "auth_required";
}

/** Adds the notice to the outcome's URL. */
export function withNotice(outcome: Outcome, visit: Visit, { boundTo }: Page): Outcome {
  if (!("to" in outcome) || outcome.notice === undefined) return outcome;
  const [path = "", query = ""] = outcome.to.split("?");
  const key = boundTo === "browser" ? visit.formToken : (visit.cookie("csrf") ?? "");
  const notice = key === "" ? outcome.notice : provenNotice(outcome.notice, key, visit.now);
  return { to: withQuery(path, { ...Object.fromEntries(new URLSearchParams(query)), notice }) };
}

/** Returns whether the form needs a new idempotency key, because a different request used the form's key. */
function isSpent(error: ApiError): boolean {
  return error.code === "idempotency_conflict" && isGeneral(error);
}

/** Returns whether the first call with the form's idempotency key may still be running. */
function isStillRunning(error: ApiError): boolean {
  return error.code === "idempotency_conflict" && !isSpent(error);
}

/** Returns whether the call may have had an effect: only an error with a general message leaves this open. */
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
