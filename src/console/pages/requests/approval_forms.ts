import { isDeepStrictEqual } from "node:util";
import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import type { PreviewAnswer } from "../../../delegations/requests/preview_route.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Constraint, KnownConstraint } from "../../../protocol/constraints/constraints.ts";
import { type Fields, inWords } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { grant } from "../../elements/delegations.ts";
import { areaField, boxField, choicesOf, selectField, textField } from "../../elements/fields.ts";
import { type FieldReader, form, readerOf } from "../../elements/form.ts";
import { limitList } from "../../elements/limits.ts";
import { type ScopeWords, scopeChoices } from "../../elements/scopes.ts";
import { time } from "../../elements/values.ts";
import { fieldOfLimit, limitFields, readLimits } from "./limit_fields.ts";

/** Maximum length of a string in the preview, in characters. */
const LONGEST = 64;

/** A pending request, with the data needed for a decision. */
export type Waiting = { request: RequestAnswer; words: ScopeWords; preview: Preview };

/** Returns the forms that approve or deny a request, or only the request if the person may not decide. */
export function decision(visit: Visit, waiting: Waiting): Html {
  const { texts } = visit;
  const words = texts.request;
  if (!visit.may("approve_delegation_request")) {
    return html`<p class="notice">${words.roleLooks}</p>${asked(visit, waiting)}`;
  }
  const obstacle = twoPeople(visit, waiting.request);
  return html`${
    obstacle === undefined
      ? approval(visit, waiting)
      : html`<p class="notice">${obstacle}</p>${asked(visit, waiting)}`
  }${denial(visit)}`;
}

/** Returns why the viewer may not approve, if the organization requires a second person. */
function twoPeople({ texts, session }: Visit, request: RequestAnswer): string | undefined {
  if (!request.four_eyes) return undefined;
  if (request.requested_by === null) return texts.request.fourEyesUnknown;
  return request.requested_by === session?.email ? texts.request.fourEyes : undefined;
}

function asked(visit: Visit, { preview, request, words }: Waiting): Html {
  const { texts } = visit;
  return html`<section class="card"><h2>${texts.request.askedFor}</h2>
    ${"said" in preview ? lent(visit, { preview, request, words }) : html`<p>${preview.fault}</p>`}</section>`;
}

function lent({ texts }: Visit, { preview, request, words }: Waiting): Html | undefined {
  if (!("said" in preview)) return undefined;
  const { approved_scope: scopes, constraints, expires_at: expiresAt } = preview.said;
  return grant(texts, words, { agent: request.agent.name, scopes, constraints, expiresAt });
}

function approval(visit: Visit, waiting: Waiting): Html {
  const { texts } = visit;
  const words = texts.request;
  const { request, words: said } = waiting;
  return html`<section class="card"><h2>${words.approveTitle}</h2>
    ${request.declared_by !== null && html`<p class="quiet">${words.inCluster}</p>`}
    ${form(visit, {
      name: "approve",
      once: true,
      content: html`<div>${boxField(visit, {
        form: "approve",
        name: "approved_scope",
        label: words.scopes,
        hint: words.scopesHint,
        choices: scopeChoices(texts, said, request.requested_scope),
      })}
      ${end(visit, request)}
      ${
        request.constraints.length > 0 &&
        html`<div class="field"><h3>${words.askedLimits}</h3><p class="hint">${words.askedLimitsHint}</p>
          <p>${words.onlyIf}</p>${limitList(texts, request.constraints as Constraint[])}</div>`
      }
      ${limitFields(visit)}</div>
      ${previewPart(visit, waiting)}`,
      submit: words.approve,
    })}</section>`;
}

function end(visit: Visit, request: RequestAnswer): Html {
  const words = visit.texts.request;
  const hint = `${words.endHint} ${askedEnd(visit, request)}.`;
  return endFields(visit, { form: "approve", label: words.end, hint });
}

/**
 * The preview's button comes first in the form, so that the Enter key updates the preview and does not
 * approve. With scripts, each change in the form updates the preview too.
 *
 * The element that receives htmx responses is never replaced itself: htmx drops a response if its target was
 * removed in the meantime.
 */
function previewPart(visit: Visit, waiting: Waiting): Html {
  const words = visit.texts.request;
  const { preview } = waiting;
  return html`<section class="preview" aria-labelledby="preview-title"><h3 id="preview-title">${words.preview}</h3>
    <div role="status" id="preview"><div id="preview-said">${
      "said" in preview
        ? html`${lent(visit, waiting)}${sdkNotes(visit, preview.said)}<details><summary>${words.raw}</summary>
          <pre tabindex="0" aria-label=${words.raw}>${JSON.stringify(preview.said.certificate, cutShort, 2)}</pre></details>`
        : html`<p class="refusal">${words.notYet} ${preview.fault}</p>`
    }</div></div>
    <p class="actions"><button type="submit" class="quiet" name="show" value="preview" formnovalidate hx-post=${visit.here}
      hx-trigger="click, change from:#form-approve delay:200ms" hx-target="#preview" hx-select="#preview-said" hx-swap="innerHTML"
      hx-status:400="swap:innerHTML" hx-status:4xx="swap:none" hx-status:5xx="swap:none" hx-sync="this:queue last">${words.previewButton}</button></p>
  </section>`;
}

/** Returns a note for each published SDK that would refuse the certificate. */
function sdkNotes({ texts }: Visit, { warnings }: PreviewAnswer): Html[] {
  const sdks = new Set(warnings.map(({ sdk }) => sdk));
  return [...sdks].map((sdk) => html`<p class="hint">${texts.request.sdks[sdk]}</p>`);
}

function cutShort(_name: string, value: unknown): unknown {
  return typeof value === "string" && value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value;
}

function denial(visit: Visit): Html {
  const words = visit.texts.request;
  return html`<section class="card"><h2>${words.denyTitle}</h2>${form(visit, {
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
  })}</section>`;
}

type Approval = { approved_scope: string[]; constraints: KnownConstraint[]; expires_in?: number };

/** The content of the future certificate, or why it cannot be created. */
export type Preview = { said: PreviewAnswer } | { fault: string };

/** Reads the approval from the form. Throws `invalid_request` with the error of each field. */
export function readApproval(visit: Visit, fields: Fields): Approval {
  const reader = readerOf(visit.texts, fields);
  const constraints = readLimits(visit, fields, reader);
  const end = readEnd(visit, reader);
  reader.check();
  return {
    approved_scope: fields.all("approved_scope").filter((scope) => scope !== ""),
    constraints,
    ...end,
  };
}

/** Returns the preview of the certificate for the page's current fields. */
export async function previewOf(visit: Visit): Promise<Preview> {
  const { params, call, failure, texts } = visit;
  try {
    const typed = failure?.form === "approve" ? readApproval(visit, failure.typed) : undefined;
    const query = typed && {
      approved_scope: typed.approved_scope.join(" "),
      constraints: JSON.stringify(typed.constraints),
      expires_in: typed.expires_in?.toString(),
    };
    return { said: await call("preview_delegation_approval", { params, ...(query && { query }) }) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status >= 500) throw error;
    return { fault: texts.errors.messages[error.code] ?? inWords(texts, withoutPlace(error.message)) };
  }
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

/** Returns the fields for a delegation's duration: a number and its unit. */
export function endFields(
  visit: Visit,
  { form, label, hint }: Record<"form" | "label" | "hint", string>,
): Html {
  const words = visit.texts.request;
  return html`<fieldset class="field" aria-describedby="end-hint"><legend>${label}</legend>
    <p class="hint" id="end-hint">${hint}</p>
    <div class="beside">${textField(visit, {
      form,
      name: "end_number",
      label: words.endNumber,
      required: false,
      attributes: { inputmode: "numeric", autocomplete: "off", maxlength: 10 },
    })}
    ${selectField(visit, {
      form,
      name: "end_unit",
      label: words.endUnit,
      value: "86400",
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

/** Returns the requested expiry of the delegation. */
export function askedEnd({ texts }: Visit, request: RequestAnswer): Piece {
  return request.requested_expires_at !== null
    ? time(request.requested_expires_at)
    : texts.request.lasting(request.requested_expires_in);
}
