import type { CertificateAnswer } from "../../../delegations/delegation_answers.ts";
import { type Html, html } from "../../../html/html.ts";
import { type Constraint, isKnownConstraint } from "../../../protocol/constraints/constraints.ts";
import type { GeoBox } from "../../../protocol/constraints/geometry.ts";
import { expandScopes, isRequirableScope } from "../../../protocol/documents/scopes.ts";
import type { Fields } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { constraintsOf } from "../../elements/decisions.ts";
import { type Choice, selectField, textField } from "../../elements/fields.ts";
import { form, MOST_DEGREES, readerOf, writtenNumber } from "../../elements/form.ts";
import { limitList } from "../../elements/limits.ts";
import type { Texts } from "../../texts/texts.ts";

/** The names of the values that constraints are compared with, as in the verify call. */
type ContextName = keyof Texts["tryIt"]["context"];

const TEXTS: readonly ContextName[] = ["currency", "resource_id", "path"];

/** The highest absolute values of coordinates. */
const BOUNDS: Record<string, number | undefined> = { latitude: MOST_DEGREES, longitude: MOST_DEGREES };

/** Facts about an action that a constraint needs, each with an example that satisfies the constraint. */
type Wanted = Partial<Record<ContextName, string>>;

/** Returns the form that asks about a delegation, with the values that its constraints are compared with. */
export function questionForm(
  visit: Visit,
  {
    certificate,
    ceiling,
    price,
  }: { certificate: CertificateAnswer; ceiling: readonly string[]; price: string },
): Html {
  const words = visit.texts.tryIt;
  return form(visit, {
    name: "try",
    once: true,
    hidden: { delegation: certificate.cert_id },
    content: html`${selectField(visit, {
      form: "try",
      name: "required_scope",
      label: words.scope,
      hint: words.scopeHint,
      choices: scopeChoices(words, certificate, ceiling),
    })}
    ${textField(visit, {
      form: "try",
      name: "another_scope",
      label: words.another,
      hint: words.anotherHint,
      required: false,
      attributes: { maxlength: 256, autocapitalize: "none", spellcheck: "false" },
    })}
    ${contextFields(visit, certificate)}
    <p>${words.cost(price)}</p>`,
    submit: words.submit,
  });
}

/** Returns the selected or entered scope. */
export function scopeOf(fields: Fields): string {
  return fields.get("another_scope").trim() || fields.get("required_scope");
}

/**
 * Returns the entered values as the verify call expects them. Empty fields are omitted and count as unknown.
 * Throws `invalid_request` for a number that is invalid or has two readings.
 */
export function contextOf({ texts }: Visit, fields: Fields): Record<string, string | number> | undefined {
  const filled = fields.pairs().filter(([name, text]) => name.startsWith("context.") && text.trim() !== "");
  if (filled.length === 0) return undefined;
  const reader = readerOf(texts, fields);
  const read = filled.map(([name, text]): [string, string | number] => {
    const key = name.slice("context.".length);
    const isText = TEXTS.some((each) => each === key);
    return [key, isText ? text : reader.number(name, BOUNDS[key])];
  });
  reader.check();
  return Object.fromEntries(read);
}

function scopeChoices(
  words: Texts["tryIt"],
  { approved_scope }: CertificateAnswer,
  ceiling: readonly string[],
): Choice[] {
  const granted = expandScopes(approved_scope).filter(isRequirableScope);
  const others = expandScopes(ceiling).filter(
    (scope) => isRequirableScope(scope) && !granted.includes(scope),
  );
  return [
    ...granted.map((scope) => ({ value: scope, label: words.grantedScope(scope) })),
    ...others.map((scope) => ({ value: scope, label: words.otherScope(scope) })),
  ];
}

function contextFields(visit: Visit, certificate: CertificateAnswer): Html | undefined {
  const words = visit.texts.tryIt;
  const constraints = constraintsOf(certificate);
  if (constraints.length === 0) return undefined;
  const wanted = Object.entries(Object.assign({}, ...constraints.map(wantedBy)) as Wanted);
  return html`<fieldset class="field"><legend>${words.constraints}</legend>
    ${limitList(visit.texts, constraints)}
    <p class="hint">${wanted.length > 0 ? words.constraintsHint : words.byItself}</p>
    ${wanted.map(([name, value]) => {
      const { label, hint } = words.context[name as ContextName];
      const isText = TEXTS.some((each) => each === name);
      const attributes = isText ? { maxlength: 4096 } : { inputmode: "decimal", maxlength: 40 };
      return textField(visit, {
        form: "try",
        name: `context.${name}`,
        label,
        hint,
        value,
        required: false,
        attributes,
      });
    })}
  </fieldset>`;
}

/** Returns the values that a constraint is compared with, unless the service knows them itself. */
function wantedBy(constraint: Constraint): Wanted {
  if (!isKnownConstraint(constraint)) return {};
  switch (constraint.type) {
    case "geo_circle":
      return placeAt([constraint.lat, constraint.lon]);
    case "geo_polygon":
      return placeAt(["", ""]);
    case "geo_bbox":
      return {
        ...placeAt([constraint.min_lat, constraint.min_lon]),
        ...(hasAltitudes(constraint) ? { altitude_m: writtenNumber(constraint.min_alt_m ?? 0) } : {}),
      };
    case "max_speed_mps":
      return { speed_mps: writtenNumber(constraint.max_mps) };
    case "max_amount":
      return { amount: writtenNumber(constraint.max_amount), currency: constraint.currency };
    case "resource_path":
      return {
        resource_id: constraint.resource_id,
        ...(constraint.path_prefix === undefined ? {} : { path: constraint.path_prefix }),
      };
    case "time_window":
    case "max_rate":
      return {};
  }
}

function placeAt([latitude, longitude]: readonly (number | string)[]): Wanted {
  return { latitude: String(latitude), longitude: String(longitude) };
}

function hasAltitudes({ min_alt_m: min = 0, max_alt_m: max = 0 }: GeoBox): boolean {
  return min !== 0 || max !== 0;
}
