import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html, type Piece } from "../../../html/html.ts";
import type { Fields } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { choiceField } from "../../elements/fields.ts";
import { type ScopeWords, scopesInWords } from "../../elements/scopes.ts";
import { facts, time } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";

type Refusal = NonNullable<RequestAnswer["refusal"]>;

/** Returns the refused action as the service knows it, or nothing if no agent asked. */
export function refusedAction(
  { texts }: Visit,
  words: ScopeWords,
  { refusal, status }: RequestAnswer,
): Html | undefined {
  if (refusal === null) return undefined;
  const said = texts.asking;
  const { verifier, operation, sent, values } = refusal;
  return html`<section class="card" aria-labelledby="refused-title"><h2 id="refused-title">${said.title}</h2>
    <p class="quiet">${said.lead}</p>${facts([
      [said.application, verifier === null ? said.unknownApplication : applicationOf(texts, verifier)],
      [said.needs, scopesInWords(texts, words, [refusal.required_scope])],
      ...(operation === undefined ? [] : actionRows(texts, operation)),
      ...Object.entries(sent ?? {}).map(([name, value]): [string, Piece] => [
        `${said.sent}: ${name}`,
        html`${values === "rounded" && isNumber(value) && `${said.about} `}<bdi>${visible(value)}</bdi>`,
      ]),
      [said.why, whyRefused(texts, refusal)],
      [said.when, time(refusal.refused_at)],
    ])}${operation === undefined ? html`<p>${refusal.allows_once ? said.hashOnly : said.unknown}</p>` : content(texts, operation, status === "pending")}${sent !== undefined && html`<p>${said.notPart}</p>`}</section>`;
}

function isNumber(text: string): boolean {
  return text !== "" && Number.isFinite(Number(text));
}

function applicationOf(
  texts: Texts,
  { platform_name, organization_name, same_account }: NonNullable<Refusal["verifier"]>,
): Html {
  const { of, another } = texts.asking;
  return html`<bdi>${visible(platform_name)}</bdi>${!same_account && html` ${another}`}${
    organization_name !== null && html`${!same_account && ","} ${of(visible(organization_name))}`
  }`;
}

function whyRefused(texts: Texts, { reason }: Refusal): string {
  const reasons: Record<string, string | undefined> = texts.decisions.reasons;
  return reasons[reason] ?? texts.asking.noCertificate;
}

type Operation = NonNullable<Refusal["operation"]>;

function actionRows(texts: Texts, { action, resource_id, requested_path }: Operation): [string, Piece][] {
  const said = texts.asking;
  const rows: [string, string][] = [
    [said.action, action],
    [said.resource, resource_id],
    [said.path, requested_path],
  ];
  return rows
    .filter(([, value]) => value !== "")
    .map(([name, value]) => [name, html`<bdi class="mono">${visible(value)}</bdi>`]);
}

function content(texts: Texts, { with_payload, payload }: Operation, isPending: boolean): Html {
  const said = texts.asking;
  if (!with_payload) return html`<p>${said.noPayload}</p>`;
  if (!isPending) return html`<p>${said.payloadGone}</p>`;
  if (payload === undefined) return html`<p class="refusal">${said.payloadUnknown}</p>`;
  const text = JSON.stringify(JSON.parse(payload), null, 2).split("\n").map(visible).join("\n");
  return html`<h3>${said.payload}</h3><pre tabindex="0" aria-label=${said.payload}>${text}</pre>`;
}

/** Writes invisible characters as their code, because they could change how the rest of a text looks. */
function visible(text: string): string {
  return text.replace(
    /[\p{C}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** How long an approval lasts, as the person chose it. */
export type Lasting = keyof Texts["asking"]["lastings"];

/** Returns what is chosen at first: the narrowest grant, if the person can read the whole action. */
export function firstLasting({ refusal }: RequestAnswer, usualDays: string): Lasting | undefined {
  if (refusal === null) return undefined;
  const { operation } = refusal;
  const isReadable = operation !== undefined && (!operation.with_payload || operation.payload !== undefined);
  if (refusal.allows_once && isReadable) return "once";
  return usualDays === "" ? "asked" : "days";
}

/** Returns the choice of how long the approval of an agent's own request lasts. */
export function lastingField(visit: Visit, request: RequestAnswer, usualDays: string): Html | undefined {
  const { texts } = visit;
  const said = texts.asking;
  const first = firstLasting(request, usualDays);
  if (first === undefined) return undefined;
  const hints: Partial<Record<Lasting, string>> = {
    once: said.onceHint(request.refusal?.required_scope ?? ""),
    asked: said.askedHint,
  };
  const isOffered = (each: Lasting) =>
    each === "once" ? request.refusal?.allows_once === true : each !== "days" || usualDays !== "";
  return choiceField(visit, {
    form: "approve",
    name: "lasting",
    label: said.lasting,
    value: first,
    choices: (Object.keys(said.lastings) as Lasting[]).filter(isOffered).map((value) => ({
      value,
      label: said.lastings[value],
      hint: hints[value],
    })),
  });
}

/** Reads the choice. Returns `other` for requests without this choice. */
export function readLasting({ texts }: Visit, fields: Fields, { refusal }: RequestAnswer): Lasting {
  const chosen = fields.get("lasting");
  const isKnown = refusal !== null && Object.hasOwn(texts.asking.lastings, chosen);
  return isKnown ? (chosen as Lasting) : "other";
}
