import type { CertificateAnswer } from "../../delegations/delegation_answers.ts";
import type { DailyCounts } from "../../history/daily_counts.ts";
import type { NamedEntry } from "../../history/history_entry.ts";
import { type Html, html } from "../../html/html.ts";
import { decisionRules, explainDecision } from "../../proofs/decide/reasons.ts";
import type { Constraint } from "../../protocol/constraints/constraints.ts";
import type { Explained } from "../texts/decisions.ts";
import type { Texts } from "../texts/texts.ts";
import { limitList } from "./limits.ts";
import { table } from "./listing.ts";
import { scopeList } from "./scopes.ts";
import { badge, facts, type Tone, time, utcDay } from "./values.ts";

const TONES: Record<"allow" | "deny" | "indeterminate", Tone> = {
  allow: "good",
  deny: "bad",
  indeterminate: "warn",
};

/** Returns the result of a decision as a badge. */
export function decisionBadge({ decisions, history }: Texts, { decision }: NamedEntry["details"]): Html {
  return decision === undefined ? badge(history.presented) : badge(decisions[decision], TONES[decision]);
}

/**
 * Returns in one line why a decision was not `allow`, or `undefined` if it was. Shows an unknown reason's
 * code.
 */
export function reasonText({ decisions }: Texts, details: NamedEntry["details"]): Html | string | undefined {
  const { decision, decision_reason: reason, explanation } = details;
  if (decision === undefined || decision === "allow" || reason === undefined) return undefined;
  const why = explanation && decisions.why(explanation, reason === "constraint_unverifiable");
  if (why !== undefined) return html`<bdi class="long">${why}</bdi>`;
  return (
    (Object.hasOwn(decisions.reasons, reason) && decisions.reasons[reason]) || html`<code>${reason}</code>`
  );
}

const WIDTH = 640;
const HEIGHT = 180;
const BASE = HEIGHT - 1;
const RESULTS = ["allow", "deny", "indeterminate"] as const;

/**
 * Returns a chart of decisions by day and result, followed by the same numbers as a table. Each day
 * with decisions is a link to `of(day)`, the URL of these decisions.
 */
export function decisionsChart({ days }: DailyCounts, texts: Texts, of: (day: string) => string): Html {
  const words = texts.decisions;
  const most = Math.max(1, ...days.map((day) => day.allow + day.deny + day.indeterminate));
  const last = days.at(-1);
  const step = WIDTH / Math.max(1, days.length);
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label=${words.chart}>
      <line class="axis" x1="0" x2=${WIDTH} y1=${BASE + 0.5} y2=${BASE + 0.5} />
      ${days.map((day, place) => {
        if (isEmpty(day)) return undefined;
        const said = words.onDay(utcDay(day.day), day);
        return html`<a href=${of(day.day)} aria-label=${said}><title>${said}</title>
          <rect class="column" x=${round(place * step)} y="0" width=${round(step)} height=${HEIGHT} />
          ${bar(day, { x: place * step, width: step, most })}</a>`;
      })}
    </svg>
    <figcaption>
      <p class="ends"><span>${days[0] && utcDay(days[0].day)}</span><span>${last && utcDay(last.day)}</span></p>
      <ul class="legend">${RESULTS.map((result) => html`<li class=${result}>${words[result]}</li>`)}</ul>
    </figcaption>
  </figure>
  <details>
    <summary>${words.asTable}</summary>
    <div class="scroll"><table>
      <caption class="hidden-label">${words.chart}</caption>
      <thead><tr><th scope="col">${words.day}</th>${RESULTS.map((result) => html`<th scope="col">${words[result]}</th>`)}</tr></thead>
      <tbody>${days
        .toReversed()
        .map(
          (day) =>
            html`<tr><th scope="row">${isEmpty(day) ? utcDay(day.day) : html`<a href=${of(day.day)}>${utcDay(day.day)}</a>`}</th>${RESULTS.map((result) => html`<td>${day[result]}</td>`)}</tr>`,
        )}</tbody>
    </table></div>
  </details>`;
}

type Day = DailyCounts["days"][number];

function isEmpty(day: Day): boolean {
  return RESULTS.every((result) => day[result] === 0);
}

function bar(day: Day, { x, width, most }: { x: number; width: number; most: number }): Html[] {
  let top = BASE;
  return RESULTS.filter((result) => day[result] > 0).map((result) => {
    const height = Math.max(2, (day[result] / most) * (BASE - 8));
    top -= height;
    return html`<rect class=${result} x=${round(x + width * 0.15)} y=${round(top)} width=${round(width * 0.7)} height=${round(height)} />`;
  });
}

function round(number: number): number {
  return Math.round(number * 10) / 10;
}

/** The known facts about a decision. The explanation of the decision omits unknown facts. */
export type DecisionFacts = {
  requiredScope?: string | undefined;
  certificate?:
    | Pick<
        CertificateAnswer,
        "approved_scope" | "issued_at" | "expires_at" | "revoked_at" | "revoke_reason" | "cert_json"
      >
    | undefined;
  /** The platform's current ceiling. */
  ceiling?: readonly string[] | undefined;
  /** The detail that the verify call returned. */
  detail?: string | null | undefined;
};

type Check = ReturnType<typeof explainDecision>[number];

const OUTCOME_TONES: Record<Check["outcome"], Tone> = { passed: "good", failed: "bad", not_reached: "plain" };

/**
 * Returns tables of all rules of a decision. `reason` determines which rules passed, failed or were not
 * reached. It is `undefined` if there was no decision.
 */
export function ruleTables({ explain: words }: Texts, reason: string | undefined): Html {
  const checks = explainDecision(reason);
  const of = (wanted: "evidence" | "permission") =>
    checks.filter((_, at) => decisionRules[at]?.kind === wanted);
  const [evidence, permission] = [of("evidence"), of("permission")];
  const passed = evidence.filter(({ outcome }) => outcome === "passed").length;
  const rules = (caption: string, items: readonly Check[]) =>
    table({
      caption,
      columns: [
        { label: words.rule, cell: ({ name }) => words.rules[name] ?? name },
        {
          label: words.result,
          cell: ({ outcome }) => badge(words.outcomes[outcome], OUTCOME_TONES[outcome]),
        },
      ],
      items,
      empty: "",
    });
  return html`<h3>${words.genuine}</h3>
    <p class="quiet">${words.genuineHint}</p>
    <details><summary>${words.passed(passed, evidence.length)}</summary>${rules(words.genuine, evidence)}</details>
    <h3>${words.permitted}</h3>
    <p class="quiet">${words.permittedHint}</p>
    ${rules(words.permitted, permission)}`;
}

/**
 * Explains what would have been needed for an allowed decision. `reason` is the decision's reason, or the
 * error code if there was no decision.
 */
export function neededFor(texts: Texts, reason: string, known: DecisionFacts): Html {
  const words = texts.explain;
  if (!isExplained(texts, reason)) return html`<p>${words.other}</p>`;
  const values = valuesFor(texts, reason, known).filter((entry) => entry !== false);
  return html`<p>${words.neededFor[reason]}</p>${values.length > 0 && facts(values)}`;
}

function isExplained({ explain }: Texts, reason: string): reason is Explained {
  return Object.hasOwn(explain.neededFor, reason);
}

type Values = Parameters<typeof facts>[0];

/** Returns a reason's known values. Without a `default`, a new reason compiles only after it gets a case. */
function valuesFor(texts: Texts, reason: Explained, known: DecisionFacts): Values {
  const words = texts.explain;
  const { requiredScope, certificate, ceiling, detail } = known;
  const asked: Values[number] = requiredScope !== undefined && [
    words.asked,
    html`<code>${requiredScope}</code>`,
  ];
  switch (reason) {
    case "not_delegated":
      return [
        asked,
        certificate !== undefined && [
          words.granted,
          certificate.approved_scope.length === 0 ? words.nothing : scopeList(certificate.approved_scope),
        ],
      ];
    case "ceiling_exceeded":
      return [asked, ceiling !== undefined && [words.ceiling, scopeList(ceiling)]];
    case "not_yet_valid":
      return [certificate !== undefined && [words.begins, time(certificate.issued_at)]];
    case "delegation_expired":
    case "delegation_revoked":
    case "no_active_delegation":
      return endsOf(words, certificate);
    case "constraint_denied":
    case "constraint_unverifiable":
    case "constraint_unknown":
      return [
        certificate !== undefined && [words.constraints, limitList(texts, constraintsOf(certificate))],
        typeof detail === "string" && [words.detail, html`<span class="mono">${detail}</span>`],
      ];
    case "untrusted_root":
    case "principal_not_accepted":
    case "delegation_not_authorized":
    case "revocation_state_unavailable":
    case "credits_exhausted":
      return [];
  }
}

function endsOf(words: Texts["explain"], certificate: DecisionFacts["certificate"]): Values {
  if (certificate === undefined) return [];
  const { revoked_at, revoke_reason, expires_at } = certificate;
  return [
    revoked_at !== null && [words.revoked, time(revoked_at)],
    revoke_reason !== null && [words.revokeReason, revoke_reason],
    revoked_at === null && expires_at !== null && [words.ended, time(expires_at)],
  ];
}

/** Returns the constraints from the signed content of a certificate. */
export function constraintsOf({ cert_json }: Pick<CertificateAnswer, "cert_json">): Constraint[] {
  return (cert_json.constraints ?? []) as Constraint[];
}

/** The content of a delegation. */
type Allowed = { scopes: string[]; constraints: Constraint[] };

/** Constraints that a new request can widen: the member with the limit, and the fact that exceeded it. */
const WIDENED: Record<string, readonly [limit: string, fact: string] | undefined> = {
  max_amount: ["max_amount", "amount"],
  max_speed_mps: ["max_mps", "speed_mps"],
};

/** Returns whether a new request can ask for what was missing. */
export function isAskable({ details }: NamedEntry): boolean {
  const { decision_reason: reason = "", explanation } = details;
  return (
    ["not_delegated", "delegation_expired", "delegation_revoked"].includes(reason) ||
    (explanation !== undefined && widenedLimit(explanation) !== undefined)
  );
}

/** Returns what a delegation allowed, plus what was missing for a denied decision. */
export function missingIn(event: NamedEntry | undefined, { scopes, constraints }: Allowed): Allowed {
  const { required_scope: required, explanation } = event?.details ?? {};
  const limit = explanation && widenedLimit(explanation);
  return {
    scopes: required === undefined ? scopes : [...new Set([...scopes, required])],
    constraints: constraints.map((each) =>
      limit !== undefined && isFailed(each, explanation) ? { ...each, ...limit } : each,
    ),
  };
}

type Denial = NonNullable<NamedEntry["details"]["explanation"]>;

/** Returns a limit that allows the sent value. `undefined` if it is unknown or in another currency. */
function widenedLimit({
  constraint = "",
  limit = {},
  sent = {},
  values,
}: Denial): Record<string, number> | undefined {
  const [member, fact] = (Object.hasOwn(WIDENED, constraint) && WIDENED[constraint]) || [];
  if (member === undefined || fact === undefined || sent.currency !== limit.currency) return undefined;
  const value = Number(sent[fact]);
  if (!Number.isFinite(value) || value <= Number(limit[member])) return undefined;
  return { [member]: values === "rounded" ? nextRounded(value) : value };
}

/** Returns the next number of two digits, because the value that was sent may be above its rounded form. */
function nextRounded(value: number): number {
  return Number((value + 10 ** (Math.floor(Math.log10(value)) - 1)).toPrecision(2));
}

function isFailed(constraint: Constraint, explanation: Denial | undefined): boolean {
  const { type, ...members } = constraint;
  const { limit = {} } = explanation ?? {};
  return (
    type === explanation?.constraint &&
    Object.entries(members).every(([name, value]) => limit[name] === String(value))
  );
}
