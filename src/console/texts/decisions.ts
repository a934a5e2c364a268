import type { NamedEntry } from "../../history/history_entry.ts";
import type { PermissionRule, RefusingReason } from "../../proofs/decide/reasons.ts";

const REFUSING = {
  delegation_revoked: "The delegation was revoked",
  delegation_expired: "The delegation had ended",
  not_yet_valid: "The delegation had not begun",
  not_delegated: "The delegation does not have this scope",
  untrusted_root: "The delegation is not from an account of this service",
  principal_not_accepted: "The platform does not accept the account that gave the delegation",
  constraint_denied: "A limit of the delegation was not met",
  constraint_unverifiable: "A limit of the delegation could not be checked",
  constraint_unknown: "This service does not know a limit of the delegation",
  delegation_not_authorized: "The agent may not pass the delegation on",
  revocation_state_unavailable: "It is not known whether the delegation is revoked",
  ceiling_exceeded: "The scope is wider than the account or the platform allows",
} satisfies Record<RefusingReason, string>;
/** Why a decision was not `allow`. Pages show an unknown reason unchanged. */
export const REASONS: Record<string, string | undefined> = REFUSING;

/** Returns a duration in the largest unit that gives a whole number. */
export function span(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
  ];
  const [size, unit] = units.find(([length]) => seconds >= length && seconds % length === 0) ?? [
    60,
    "minute",
  ];
  const number = Math.ceil(seconds / size);
  return `${number} ${unit}${number === 1 ? "" : "s"}`;
}

/** Texts for the rules of a decision. Each text is true if its rule passes. */
const RULES = {
  structure: "The proof is complete: certificates, and a challenge of 32 bytes.",
  session_context:
    "It is bound to the operation that the application names, or to no operation if the application names none.",
  challenge_known: "This service gave its challenge to this platform, less than five minutes ago.",
  stream: "It is not part of a stream of proofs. This service makes no decisions about streams.",
  agent_key: "The agent has the key that its certificate names.",
  version: "Every certificate has a version that this service reads.",
  vocabulary: "Every scope in the certificates exists.",
  signature: "Each certificate is signed by its issuer.",
  link: "The certificates form a chain back to the person who lent the authority.",
  challenge_freshness: "The agent signed the challenge within the last five minutes.",
  challenge_signature: "The agent's own key signed it.",
  challenge_spent: "The challenge was not used before.",
  root_trusted: "The authority comes from an account of this service.",
  principal_accepted: "The platform accepts authority from that account for this scope.",
  not_expired: "The delegation has not ended.",
  already_valid: "The delegation has begun.",
  not_revoked: "It is known that the delegation is not revoked.",
  delegation_right: "Everybody who passed the delegation on was allowed to do so.",
  constraints: "Every limit of the delegation is met.",
  required_scope: "The delegation has the scope that is asked for.",
  within_ceiling: "The scope is within the platform's current ceiling.",
} satisfies Record<PermissionRule, string> & Record<string, string>;

/** The reasons of decisions that pages explain, and the error codes of calls without a decision. */
export type Explained = RefusingReason | "no_active_delegation" | "credits_exhausted";

const NEEDED = {
  untrusted_root:
    "A delegation by an account of this service. No account here has the key that signed the delegation that was shown.",
  principal_not_accepted:
    "A delegation by the account of the platform, or by an account that the platform accepts for this scope. The platform's owner decides which accounts it accepts.",
  delegation_expired: "A delegation that has not ended. Ask for a new one.",
  not_yet_valid: "A delegation that has begun.",
  delegation_revoked: "A delegation that is not revoked. Ask for a new one.",
  revocation_state_unavailable:
    "A certificate whose state this service knows. While the state is not known, this service allows nothing.",
  delegation_not_authorized:
    "A delegation whose holder may pass it on: the scope identity:delegate, in each certificate but the last.",
  constraint_denied: "Values within the limits of the delegation.",
  constraint_unverifiable:
    "A value for each limit: the application sends what it knows of the action with its call.",
  constraint_unknown: "Limits that this service can check.",
  not_delegated: "A delegation that has this scope. Ask for one, or ask for less here.",
  ceiling_exceeded:
    "A platform whose ceiling contains this scope. The ceiling was made narrower after the delegation was approved.",
  no_active_delegation: "A delegation that is active. Without one there is nothing to prove.",
  credits_exhausted: "Credit for a decision. Ask the people who run this service for more.",
} satisfies Record<Explained, string>;

/** Texts that explain decisions. */
export const EXPLAIN = {
  needed: "What would have been needed",
  rules: RULES as Record<string, string | undefined>,
  neededFor: NEEDED,
  other: "The reason is not one that these pages know.",
  rule: "Rule",
  result: "Result",
  outcomes: { passed: "Passed", failed: "Failed", not_reached: "Not reached" },
  genuine: "Is the proof genuine?",
  genuineHint: "Without this there is no decision.",
  permitted: "May the agent do this?",
  permittedHint: "The first rule that fails decides; those after it are not reached.",
  passed: (passed: number, all: number) =>
    passed === all ? `All ${all} rules passed` : `${passed} of ${all} rules passed`,
  asked: "Asked for",
  granted: "The delegation has",
  nothing: "nothing",
  ended: "It ended",
  begins: "It begins",
  revoked: "It was revoked",
  revokeReason: "Reason given",
  ceiling: "The platform may be lent",
  constraints: "It holds only if",
  detail: "In the service's words",
};

const CONTEXT = {
  amount: { label: "Amount", hint: "A number, such as 12.50" },
  currency: { label: "Currency", hint: "As the delegation writes it, such as EUR" },
  latitude: { label: "Latitude", hint: "In degrees, such as 52.52" },
  longitude: { label: "Longitude", hint: "In degrees, such as 13.405" },
  altitude_m: { label: "Altitude", hint: "In meters" },
  speed_mps: { label: "Speed", hint: "In meters per second" },
  resource_id: { label: "Resource", hint: "What is acted on, as the application names it" },
  path: { label: "Path", hint: "Below the resource, such as /orders/7" },
};

/** Texts of the page that shows how the service would answer an application. */
export const TRY_IT = {
  navigation: "Try it",
  title: "Try it",
  lead: "See which answer an application would get. You choose a delegation and what the agent wants to do. This page makes the three calls of an application for you, and shows every rule.",
  nothing:
    "There is no delegation to try yet. Register a platform, create an agent, and approve its request.",
  toPlatforms: "Platforms",
  choose: "Which delegation?",
  delegation: "Delegation",
  delegationHint:
    "The newest 100. If you choose one that has ended or was revoked, you see how it is refused.",
  chooseIt: "Choose",
  option: (agent: string, platform: string, scopes: number, state: string) =>
    `${agent} on ${platform}: ${scopes === 1 ? "1 scope" : `${scopes} scopes`}, ${state}`,
  states: { active: "active", ended: "ended", revoked: "revoked" },
  removed: "The platform was removed with its agents, so there is nothing left to try.",
  question: "What does the agent want to do?",
  agent: "Agent",
  platform: "Platform",
  state: "State",
  scope: "Scope",
  scopeHint: "What an application would ask for.",
  grantedScope: (scope: string) => `${scope} (in the delegation)`,
  otherScope: (scope: string) => `${scope} (not in the delegation: will be denied)`,
  another: "Another scope",
  anotherHint: "Leave it empty to take the one above. Scopes that nobody granted are denied.",
  notAScope: "This is not a scope: write one such as data:read or custom:orders:refund, without a wildcard",
  constraints: "The delegation holds only if",
  constraintsHint:
    "An application sends what it knows of the action. What you leave empty is not sent. If a limit cannot be checked without it, the answer is a denial.",
  byItself: "The service checks the time and counts the uses itself.",
  context: CONTEXT,
  cost: (usd: string) =>
    `This is a real decision: it costs ${usd} US dollars, is in the history, has a receipt, and counts toward the limits of the delegation.`,
  submit: "Try it",
  titles: {
    allow: "Allowed",
    deny: "Denied",
    indeterminate: "Not decided",
    none: "There was no decision",
  },
  allowed: (agent: string, scope: string) =>
    `An application that asks now gets allow: ${agent} may use ${scope}.`,
  denied: (agent: string, scope: string, reason: string) =>
    `An application that asks now gets deny for ${agent} and ${scope}. ${REASONS[reason] ?? reason}.`,
  indeterminate: "An application must refuse: nobody knows whether the delegation still holds.",
  refusals: {
    no_active_delegation:
      "No proof was made: the agent has no active delegation of this name. Nothing was charged.",
    credits_exhausted: "The proof was good, but there is no credit to decide on it. Nothing was charged.",
  } as Record<string, string | undefined>,
  decidedAt: "Decided",
  charged: "Charged",
  usd: (usd: string) => `${usd} US dollars`,
  receipt: "Receipt",
  inHistory: "See it in the history",
  sent: "Values sent",
  rules: "The rules, one by one",
  calls: "The three calls",
  callsHint: "As an application makes them with its API key. Long values are shortened here.",
  callNames: {
    create_challenge: "Ask for a challenge",
    present_proof: "Have the agent prove its delegation",
    verify_proof: "Ask for the decision",
  },
  body: "Sent",
  noBody: "Nothing is sent in the body.",
  answer: "Answered",
  shortened: (start: string, length: number) => `${start}… (${length.toLocaleString("en")} characters)`,
  entries: (number: number) => `${number} entries, see the rules above`,
  curl: "The same with curl",
  curlHint:
    "Paste it into a shell, with the platform's API key in the first line. Each time it makes a separate decision.",
  again: "Try something else",
};

type Facts = Record<string, string>;
type Explanation = NonNullable<NamedEntry["details"]["explanation"]>;

/** Isolates the writing direction of a stranger's text. Explanations contain no isolating characters. */
const isolated = (text = "") => `\u2068${text}\u2069`;

function number(text = ""): string {
  const value = Number(text);
  return Number.isFinite(value) && text !== ""
    ? value.toLocaleString("en", { maximumFractionDigits: 6 })
    : isolated(text);
}

/** Phrases for the sent values, or `undefined` if these are missing, and for the allowed values. */
type Saying = { sent(sent: Facts, about: string): string | undefined; allowed(limit: Facts): string };

const money = ({ amount, max_amount, currency }: Facts, about = "") =>
  `${about}${number(amount ?? max_amount)} ${isolated(currency)}`;
const place: Saying["sent"] = ({ latitude, longitude, altitude_m }, about) =>
  latitude !== undefined && longitude !== undefined
    ? `asked at ${about}${number(latitude)}°, ${number(longitude)}°${altitude_m === undefined ? "" : `, ${number(altitude_m)} m high`}`
    : undefined;
const area = () => "the place must be inside the area of the delegation";

const SAYINGS: Record<string, Saying | undefined> = {
  max_amount: {
    sent: (sent, about) => (sent.amount === undefined ? undefined : `asked for ${money(sent, about)}`),
    allowed: (limit) => `at most ${money(limit)} is allowed`,
  },
  max_speed_mps: {
    sent: ({ speed_mps }, about) =>
      speed_mps === undefined ? undefined : `asked at ${about}${number(speed_mps)} m/s`,
    allowed: ({ max_mps }) => `at most ${number(max_mps)} m/s is allowed`,
  },
  max_rate: {
    sent: ({ used }) =>
      used === undefined ? undefined : `was used ${used === "1" ? "once" : `${number(used)} times`} before`,
    allowed: ({ count, window_s }) => {
      const seconds = Number(window_s);
      const window = seconds < 60 ? `${seconds} s` : span(seconds);
      return `${count === "1" ? "one use" : `${number(count)} uses`} in ${window} ${count === "1" ? "is" : "are"} allowed`;
    },
  },
  time_window: {
    sent: ({ time }) => (time === undefined ? undefined : `asked at ${time}`),
    allowed: ({ start, end, tz }) => `allowed from ${start} to ${end}, by the time of ${isolated(tz)}`,
  },
  geo_circle: {
    sent: place,
    allowed: ({ lat, lon, radius_m }) =>
      `allowed within ${number(radius_m)} m of ${number(lat)}°, ${number(lon)}°`,
  },
  geo_polygon: { sent: place, allowed: area },
  geo_bbox: { sent: place, allowed: area },
  resource_path: {
    sent: ({ resource_id, path = "" }) =>
      resource_id === undefined ? undefined : `asked for ${isolated([resource_id, path].join(" ").trim())}`,
    allowed: ({ resource_id, path_prefix = "" }) =>
      `allowed only ${isolated([resource_id, path_prefix].join(" ").trim())}`,
  },
};

/**
 * Returns a line that says what was sent and what is allowed, or `undefined` if these pages do not know the
 * failed constraint.
 */
export function whyDenied(
  { constraint = "", limit = {}, sent = {}, values }: Explanation,
  isUnverifiable: boolean,
): string | undefined {
  const saying = Object.hasOwn(SAYINGS, constraint) ? SAYINGS[constraint] : undefined;
  if (saying === undefined) return undefined;
  const isHidden = Object.values(sent).some((value) => value.startsWith("hmac-sha256:"));
  const about = values === "rounded" ? "about " : "";
  const asked = isUnverifiable
    ? "the application did not send what this limit needs"
    : isHidden
      ? "the value that was sent is not shown"
      : (saying.sent(sent, about) ?? "the value that was sent is not known");
  const text = `${asked}; ${saying.allowed(limit)}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
