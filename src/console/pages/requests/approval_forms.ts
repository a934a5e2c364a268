import { isDeepStrictEqual } from "node:util";
import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Constraint, KnownConstraint } from "../../../protocol/constraints/constraints.ts";
import { type Fields, inWords } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { areaField, boxField, choicesOf, selectField, textField } from "../../elements/fields.ts";
import { type FieldReader, form, readerOf } from "../../elements/form.ts";
import { limitList } from "../../elements/limits.ts";
import { consentChoices, isSensitive, type ScopeWords, scopesInWords } from "../../elements/scopes.ts";
import { askedEnd, asker, asking } from "./asker.ts";
import { fieldOfLimit, hasLimits, limitFields, readLimits } from "./limit_fields.ts";
import { countText, endText, type Preview, risk, technical, type Waiting } from "./preview.ts";
import { firstLasting, lastingField, readLasting } from "./refused.ts";
import { readSeparate, separateField } from "./separate.ts";

/** Returns the forms that approve or deny a request, or only the request if the person may not decide. */
export function decision(visit: Visit, waiting: Waiting): Html {
  const { texts } = visit;
  const words = texts.request;
  if (!visit.may("approve_delegation_request")) {
    return html`<p class="notice">${words.roleLooks}</p>${asked(visit, waiting)}${asker(visit, waiting.request)}`;
  }
  const obstacle = twoPeople(visit, waiting.request);
  return html`${
    obstacle === undefined
      ? approval(visit, waiting)
      : html`<p class="notice">${obstacle}</p>${asked(visit, waiting)}${asker(visit, waiting.request)}`
  }${denial(visit)}`;
}

/** Returns why the viewer may not approve, if the organization requires a second person. */
function twoPeople({ texts, session }: Visit, request: RequestAnswer): string | undefined {
  if (!request.four_eyes) return undefined;
  const { requested_by, connected_by } = request;
  const asker = requested_by ?? connected_by;
  if (asker === null) return texts.request.fourEyesUnknown;
  if (asker !== session?.email) return undefined;
  return requested_by === null ? texts.request.fourEyesConnected : texts.request.fourEyes;
}

/** Returns the whole request, for people who see it but do not approve it. */
function asked(visit: Visit, { request, words }: Waiting): Html {
  const { texts } = visit;
  return html`<section class="card"><h2>${texts.request.askedFor}</h2>
    ${scopesInWords(texts, words, request.requested_scope)}
    ${request.constraints.length > 0 && limits(visit, request.constraints as Constraint[])}
    <p>${texts.request.ends}: ${askedEnd(visit, request)}.</p></section>`;
}

/** The most days that an approval lasts unless the person changes it. */
const USUAL_DAYS = 30;

/** Returns the number of days after which an approval ends at first. Empty if the request ends earlier. */
function usualDays(visit: Visit, { requested_expires_at: at, requested_expires_in: seconds }: RequestAnswer) {
  const asked = at === null ? seconds : (Date.parse(at) - visit.now.getTime()) / 1000;
  return asked !== null && asked <= USUAL_DAYS * DAY ? "" : String(USUAL_DAYS);
}

function approval(visit: Visit, waiting: Waiting): Html {
  const { texts } = visit;
  const words = texts.request;
  const { request, words: said } = waiting;
  return form(visit, {
    name: "approve",
    once: true,
    content: html`<div class="consent">
      <section class="card">${boxField(visit, {
        form: "approve",
        name: "approved_scope",
        label: words.mayList,
        choices: consentChoices(texts, said, request.requested_scope),
        isTicked: (scope) => !isSensitive(said, scope),
      })}
      ${request.constraints.length > 0 && limits(visit, request.constraints as Constraint[])}</section>
      <section class="card ends">${lastingField(visit, request, usualDays(visit, request))}<p id="preview-end">${endText(visit, waiting.preview)}</p>
        <details open=${visit.failure?.form === "approve"}><summary>${words.change}</summary>${end(visit, request)}</details></section>
      ${risk(visit, waiting)}
      <details class="more-limits" open=${hasLimits(visit)}><summary>${words.addLimit}</summary>${limitFields(visit, separateField(visit, request, said))}</details>
      ${asking(visit, request)}
      ${technical(visit, waiting)}</div>`,
    submit: html`${words.approve} <span id="preview-count" class="scripted">${countText(visit, waiting)}</span>`,
    beside: html`<button type="submit" class="quiet" form="form-deny">${words.denyNow}</button>`,
  });
}

function limits({ texts }: Visit, constraints: readonly Constraint[]): Html {
  const { onlyIfOne, onlyIf } = texts.request;
  const [only, ...others] = constraints;
  return only !== undefined && others.length === 0
    ? html`<p>${onlyIfOne(texts.limits.say(only))}</p>`
    : html`<p>${onlyIf}</p>${limitList(texts, constraints)}`;
}

function end(visit: Visit, request: RequestAnswer): Html {
  const words = visit.texts.request;
  const hint = html`${words.endHint} ${askedEnd(visit, request)}.`;
  return endFields(visit, { form: "approve", label: words.end, hint, value: usualDays(visit, request) });
}

function denial(visit: Visit): Html {
  const words = visit.texts.request;
  return html`<details class="card" open=${visit.failure?.form === "deny"}><summary>${words.denyTitle}</summary>${form(
    visit,
    {
      name: "deny",
      once: true,
      content: areaField(visit, {
        form: "deny",
        name: "reason",
        label: words.denyReason,
        hint: words.denyHint,
        required: false,
        attributes: { maxlength: 500 },
      }),
      submit: words.deny,
      tone: "danger",
    },
  )}</details>`;
}

type Approval = {
  approved_scope: string[];
  /** Whether only the refused action is approved, for one time. */
  once?: true;
  /** Scopes of a second delegation, without the limit on the amount. */
  separate_scope?: string[];
  constraints: KnownConstraint[];
  expires_in?: number;
};

/** Reads the approval from the form. Throws `invalid_request` with the error of each field. */
export function readApproval(visit: Visit, fields: Fields, request: RequestAnswer): Approval {
  const reader = readerOf(visit.texts, fields);
  const constraints = readLimits(visit, fields, reader);
  const lasting = readLasting(visit, fields, request);
  const end = lasting === "other" ? readEnd(visit, reader) : {};
  const ticked = fields.all("approved_scope").filter((scope) => scope !== "");
  const isOnce = lasting === "once";
  const scopes = isOnce ? ticked.filter((scope) => scope === request.refusal?.required_scope) : ticked;
  const separate = readSeparate(visit, fields, { request, scopes, constraints }, reader);
  reader.check();
  return {
    approved_scope: scopes.filter((scope) => !separate.includes(scope)),
    ...(separate.length > 0 && { separate_scope: separate }),
    constraints,
    ...(isOnce && { once: true }),
    ...(lasting === "days" ? { expires_in: USUAL_DAYS * DAY } : end),
  };
}

/** Returns the preview of the certificate for the page's current fields. */
export async function previewOf(
  visit: Visit,
  { request, words }: Pick<Waiting, "request" | "words">,
): Promise<Preview> {
  const { params, call, failure, texts } = visit;
  try {
    const isSent = failure?.form === "approve";
    const typed = isSent ? readApproval(visit, failure.typed, request) : usualApproval(visit, request, words);
    if (typed.approved_scope.length === 0) return { fault: texts.request.nobodyKnows };
    const isWhole = !isSent && typed.approved_scope.length === request.requested_scope.length;
    const ask = (scopes: readonly string[] | undefined, constraints: readonly KnownConstraint[]) => {
      const query = {
        ...(scopes && { approved_scope: scopes.join(" ") }),
        constraints: JSON.stringify(constraints),
        expires_in: typed.expires_in?.toString(),
        ...(typed.once && { once: "true" as const }),
      };
      return call("preview_delegation_approval", { params, query });
    };
    const said = await ask(isWhole ? undefined : typed.approved_scope, typed.constraints);
    if (typed.separate_scope === undefined) return { said };
    const others = typed.constraints.filter(({ type }) => type !== "max_amount");
    return { said, separate: await ask(typed.separate_scope, others) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error;
    return { fault: texts.errors.messages[error.code] ?? inWords(texts, withoutPlace(error.message)) };
  }
}

/** Returns what the form contains at first: no sensitive scope, and an end. */
function usualApproval(visit: Visit, request: RequestAnswer, words: ScopeWords): Approval {
  const days = usualDays(visit, request);
  const approved_scope = request.requested_scope.filter((scope) => !isSensitive(words, scope));
  if (firstLasting(request, days) === "once") {
    const scope = request.refusal?.required_scope;
    return { approved_scope: approved_scope.filter((each) => each === scope), constraints: [], once: true };
  }
  return {
    approved_scope,
    constraints: [],
    ...(days !== "" && { expires_in: Number(days) * DAY }),
  };
}

/** Moves a constraint's error to the form field of that constraint. */
export function besideField(error: unknown, request: RequestAnswer, approval: Approval): unknown {
  if (!(error instanceof ApiError) || !/^(invalid_constraints|constraint_widened)$/.test(error.code)) {
    return error;
  }
  const { constraints: requested } = request;
  const added = approval.constraints.filter((each) => !requested.some((one) => isDeepStrictEqual(one, each)));
  const place = /\bconstraints\.(\d+)/.exec(error.message)?.[1];
  const refused = place === undefined ? undefined : [...requested, ...added][Number(place)];
  const field = refused && fieldOfLimit(String(refused.type));
  const message = withoutPlace(error.message);
  if (field === undefined) return new ApiError(error.code, message);
  return new ApiError("invalid_request", `body.${field}: ${message}`);
}

function withoutPlace(message: string): string {
  const said = message.replace(/^(?:[a-z_]+: )?(?:(?:body|constraints)\.\w+: )?/, "");
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
}

const MOST_SECONDS = 2_147_483_647;
const DAY = 86_400;

type EndFields = { form: string; label: string; hint: Piece; value?: string; unit?: number };

/** Returns the fields for a delegation's duration: a number and its unit, in seconds. */
export function endFields(visit: Visit, { form, label, hint, value = "", unit = DAY }: EndFields): Html {
  const words = visit.texts.request;
  return html`<fieldset class="field" aria-describedby="end-hint"><legend>${label}</legend>
    <p class="hint" id="end-hint">${hint}</p>
    <div class="beside">${textField(visit, {
      form,
      name: "end_number",
      label: words.endNumber,
      value,
      required: false,
      attributes: { inputmode: "numeric", autocomplete: "off", maxlength: 10 },
    })}
    ${selectField(visit, {
      form,
      name: "end_unit",
      label: words.endUnit,
      value: String(unit),
      choices: choicesOf(words.units),
    })}</div></fieldset>`;
}

/** Returns the duration in seconds, or nothing if the field is empty. Adds errors to the reader. */
export function readEnd({ texts }: Visit, reader: FieldReader): { expires_in?: number } {
  if (reader.optional("end_number") === "") return {};
  const expires_in = reader.whole("end_number") * reader.whole("end_unit");
  const { notPositive, tooLate } = texts.request;
  if (expires_in < 1) reader.fault("end_number", notPositive);
  if (expires_in > MOST_SECONDS) reader.fault("end_number", tooLate(Math.floor(MOST_SECONDS / DAY)));
  return { expires_in };
}
