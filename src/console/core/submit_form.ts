import { ApiError } from "../../errors.ts";
import { sentence } from "./answers.ts";
import { type Fields, faultsByField } from "./fields.ts";
import { isOfBrowser } from "./form_token.ts";
import { keptForm } from "./kept_form.ts";
import type { Failure, Form, Outcome, Page, Visit } from "./page.ts";
import { withQuery } from "./places.ts";

/** A form that was refused, to be shown again. */
type Refused = { failure: Failure; status: number };

/** Does what a form asks for. */
export async function submitForm(page: Page, visit: Visit, sent: Fields): Promise<Outcome | Refused> {
  const name = sent.get("form");
  const form = Object.hasOwn(page.forms ?? {}, name) ? page.forms?.[name] : undefined;
  if (form === undefined) throw new ApiError("invalid_request", "form: this page has no such form");
  const unchanged = { form: name, message: "", fields: new Map(), typed: sent };
  if (form.carries) return { failure: unchanged, status: 200 };
  try {
    if (page.boundTo === "browser" && !isOfBrowser(sent.get("csrf"), visit.cookie("sign_in"))) {
      throw new ApiError("csrf_failed", visit.texts.errors.noCookie);
    }
    const outcome = await form.submit(visit, sent);
    if (!("to" in outcome) || outcome.notice === undefined) return outcome;
    return { to: withNotice(outcome.to, outcome.notice) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (page.boundTo !== "browser" && isOfSession(error)) return keptForm(visit, sent, "stale");
    return { failure: failureOf(error, { form, name }, { visit, sent }), status: error.status };
  }
}

/** Refusals that a renewed session mends: the form itself came from a page of ours. */
function isOfSession({ code }: ApiError): boolean {
  return code === "csrf_failed" || code === "auth_required";
}

function withNotice(to: string, notice: string): string {
  const [path = "", query = ""] = to.split("?");
  return withQuery(path, { ...Object.fromEntries(new URLSearchParams(query)), notice });
}

function failureOf(
  error: ApiError,
  { form, name }: { form: Form; name: string },
  { visit, sent }: { visit: Visit; sent: Fields },
): Failure {
  const { messages } = visit.texts.errors;
  const said = messages[error.code] ?? error.message;
  const faults = error.code === "invalid_request" ? faultsByField(error.message) : new Map<string, string>();
  const field = form.errorFields?.[error.code];
  const named = field === undefined ? faults : new Map([[field, said]]);
  const own = form.faults?.(visit.texts) ?? {};
  const fields = new Map(
    [...named].map(([key, text]) => [key, sentence((faults.has(key) && own[key]) || text)]),
  );
  const message = fields.size === 0 ? sentence(said) : visit.texts.errors.lookBelow;
  return { form: name, message, fields, typed: sent };
}
