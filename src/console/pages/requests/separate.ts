import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import type { Html } from "../../../html/html.ts";
import type { KnownConstraint } from "../../../protocol/constraints/constraints.ts";
import { lacksAmount } from "../../../protocol/documents/scope_risk.ts";
import type { Fields } from "../../core/forms.ts";
import type { Visit } from "../../core/page.ts";
import { checkField } from "../../elements/fields.ts";
import type { FieldReader } from "../../elements/form.ts";
import type { ScopeWords } from "../../elements/scopes.ts";
import type { Texts } from "../../texts/texts.ts";

/** Limits of a request that prevent two delegations, which would together allow more than the request. */
const TOGETHER: readonly string[] = ["max_amount", "max_rate"];

/** Returns which of the scopes an approval can lend separately, because their uses have no amount. */
function separable(request: RequestAnswer, scopes: readonly string[]): string[] {
  const isWhole = request.constraints.some(({ type }) => TOGETHER.includes(String(type)));
  if (request.declared_by !== null || isWhole) return [];
  const without = scopes.filter(lacksAmount);
  return without.length < scopes.length ? without : [];
}

/** Returns the box that lends permissions without an amount separately, or nothing if there are none. */
export function separateField(visit: Visit, request: RequestAnswer, said: ScopeWords): Html | undefined {
  const words = visit.texts.request;
  const scopes = separable(request, request.requested_scope);
  if (scopes.length === 0) return undefined;
  return checkField(visit, {
    form: "approve",
    name: "separate",
    value: "on",
    label: words.separate,
    hint: words.separateHint(quoted(visit.texts, said, scopes)),
  });
}

/** Returns the words of scopes in quotes, as a list for a sentence. */
export function quoted(texts: Texts, { vocabulary }: ScopeWords, scopes: readonly string[]): string {
  const known = scopes.filter((scope) => Object.hasOwn(vocabulary.words, scope));
  return new Intl.ListFormat(texts.language).format(known.map((scope) => `“${vocabulary.words[scope]}”`));
}

type Chosen = { request: RequestAnswer; scopes: readonly string[]; constraints: readonly KnownConstraint[] };

/** Returns which of the chosen scopes the form lends separately. Adds an error for a limit on how often. */
export function readSeparate(
  { texts }: Visit,
  fields: Fields,
  { request, scopes, constraints }: Chosen,
  reader: FieldReader,
): string[] {
  const isLimited = constraints.some(({ type }) => type === "max_amount");
  const separate = isLimited && fields.get("separate") === "on" ? separable(request, scopes) : [];
  if (separate.length > 0 && constraints.some(({ type }) => type === "max_rate")) {
    reader.fault("rate_count", texts.request.separateRate);
  }
  return separate;
}
