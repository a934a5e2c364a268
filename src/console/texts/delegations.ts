import type { Constraint, KnownConstraint } from "../../protocol/constraints/constraints.ts";
import { altitudeBounds } from "../../protocol/constraints/geometry.ts";
import { span } from "./decisions.ts";

const times = (number: number) => (number === 1 ? "once" : `${number.toLocaleString("en")} times`);

/** Texts of the pages about delegations. */
const DELEGATIONS = {
  title: "Delegations",
  lead: "What agents may do for you. A delegation is a signed permission that somebody approved; you can take it back at any time.",
  filter: "Filter the list",
  search: "Search",
  searchHint: "Agent, platform or scope, or a whole id",
  state: "State",
  anyState: "Any",
  platform: "Platform",
  anyPlatform: "Any",
  sort: "Sorted by",
  sorts: { newest: "Newest first", ending: "Next to end first" },
  states: {
    active: "active",
    ending: "ends soon",
    expired: "has ended",
    revoked: "revoked",
  },
  ofAgent: "Of one agent only.",
  agent: "Agent",
  of: (platform: string) => `of ${platform}`,
  may: "May do",
  ends: "Ends",
  ended: "Ended",
  forever: "when it is revoked",
  empty:
    "There are no delegations yet. One appears here when somebody approves what an agent asks for, under Requests.",
  nothing: "No delegation matches the filter.",
};

/** Texts of the page about one delegation. */
const DELEGATION = {
  title: (agent: string) => `Delegation to ${agent}`,
  lead: {
    active: "It is active: the agent may use it now.",
    ending: "It is active and ends soon. The application can ask for a new one.",
    expired: "It has expired: every use of it is denied.",
    revoked: "It is revoked permanently: every use of it is denied.",
  },
  grant: "What it says",
  about: "About it",
  state: "State",
  agent: "Agent",
  platform: "Platform",
  approved: "Approved",
  approvedBy: (who: string) => `by ${who}`,
  channels: { session: "signed in here or by the API", kubernetes: "in a cluster" } as Record<
    string,
    string | undefined
  >,
  request: "Asked for by",
  toRequest: "the request that led to it",
  declared: "Declared by",
  declaredBy: (name: string, cluster: string) => `the Delegation ${name} in the cluster ${cluster}`,
  revoked: "Revoked",
  revokedBy: (who: string | null) =>
    who === null ? "by the application or by the agent's end" : `by ${who}`,
  reason: "Reason",
  noReason: "none was given",
  revoke: "Revoke it",
  askAgain: "Ask again",
  mayNotRevoke: "Your role lets you see delegations. Owners and approvers revoke them.",
  chain: "Signatures",
  chainLead:
    "The root key of an account signs a certificate, and the certificate names the key of the agent. Each step was checked when you opened this page.",
  root: "Root identity",
  rootGood: "the root key of this account",
  rootBad: "not the root key of this account",
  certificate: "Certificate",
  signatureGood: "its hybrid signature is valid",
  signatureBad: (half: string) => `its signature is not valid (${half})`,
  key: "Agent's key",
  keyGood: "the key of this agent",
  keyBad: "not the key of this agent",
  idBad: "its id does not match its key",
  disabled: "The agent was deleted, and its key disabled,",
  fingerprint: "Fingerprint",
  list: "Revocation list",
  listed: "The signed list of this root identity names it, so that others see the revocation too.",
  unlisted: "The signed list of this root identity does not name it.",
  listEnded: "It is revoked and ended more than a day ago, so the signed list need no longer name it.",
  toList: "See the list",
  signs: "signed",
  lends: "lends to",
  details: "The certificate",
  serial: "Serial",
  version: "Version",
  issuer: "Issuer",
  subject: "Subject",
  algorithms: "Algorithms",
  hybrid: "Ed25519 and ML-DSA-65 together: both must be valid",
  from: "Valid from",
  until: "Valid until",
  forever: "it is revoked",
  raw: "As it is signed (JSON)",
  file: "Download the certificate",
  decisions: "Last decisions",
  noDecisions: "No application has asked about it yet.",
  when: "When",
  result: "Result",
  scope: "Asked for",
  why: "Why not",
  allDecisions: "All in the history",
};

/** Texts of the page that revokes a delegation. */
const REVOKE = {
  title: (agent: string) => `Revoke the delegation to ${agent}`,
  lead: "From then on every check of it is denied, immediately and for good. It cannot be taken back; a new request can be approved.",
  linkedStays: "The linked delegation from the same approval stays active. Revoke it separately.",
  allows: "What it allows",
  stops: "What it stops",
  used: (number: number, more: boolean, days: number) =>
    number === 0
      ? `It was not used in the last ${days} days.`
      : `It was used ${more ? "more than " : ""}${times(number)} in the last ${days} days.`,
  last: "Last",
  ago: (seconds: number) => `${ago(seconds)} ago`,
  denied: (number: number) => `It was denied ${times(number)} in that time.`,
  scope: "Used for",
  count: "Times",
  others: (agent: string, number: number) =>
    number === 0
      ? `${agent} has no other active delegation: after this it may do nothing.`
      : `${agent} has ${number === 1 ? "another active delegation, which stays" : `${number} other active delegations, which stay`}.`,
  toOthers: "See them",
  declared: (name: string, cluster: string) =>
    `The Delegation ${name} in the cluster ${cluster} declares it. The object stays there and reports Revoked; the operator does not ask again automatically. To ask again, somebody must delete the object and create it again, and that request waits for a decision as before.`,
  reason: "Reason",
  reasonHint: "The application can read it, and it stays with the delegation. You may leave it empty.",
  submit: "Revoke it",
  cancel: "Leave it as it is",
  already: "It is revoked already.",
  ended: "It has already expired. Revoking it also puts it on the revocation list.",
};

/** Texts of the page that revokes several delegations. */
const REVOKE_MANY = {
  link: "Revoke several",
  title: "Revoke several delegations",
  lead: "Tick the delegations to end. The next page names them, and nothing ends before you confirm.",
  nothing: "No active delegation matches. Delegations that you can revoke appear here.",
  none: (most: number) => `Tick at least one delegation, and at most ${most}.`,
  all: "Tick all",
  active: "Active delegations",
  go: "See what ends",
  confirmTitle: (number: number) =>
    number === 1 ? "Revoke 1 delegation" : `Revoke ${number.toLocaleString("en")} delegations`,
  confirmLead:
    "Every check of them is denied immediately and permanently. You cannot undo this. A new request can be approved.",
  cancel: "Leave them as they are",
  ends: "These end",
  gone: (number: number) =>
    number === 1
      ? "One delegation that you chose has already ended. It is not listed."
      : `${number.toLocaleString("en")} delegations that you chose have already ended. They are not listed.`,
  done: "All of them have already ended.",
  toList: "See the delegations",
  submit: (number: number) => (number === 1 ? "Revoke it" : `Revoke all ${number.toLocaleString("en")}`),
  failedTitle: (done: number, number: number) => `${done} of ${number} were revoked`,
  failed: "These could not be revoked, so agents may still use them. All others have ended.",
  again: "Try these again",
};

/** Notices of the pages about delegations. */
export const DELEGATION_NOTICES = {
  revoked_many: "Revoked. Every check of them is denied from now on.",
  revoked: "Revoked. Every check of it is denied from now on.",
};

function ago(seconds: number): string {
  if (seconds < 60) return "less than a minute";
  const unit = [86_400, 3_600, 60].find((length) => seconds >= length) ?? 60;
  return span(Math.floor(seconds / unit) * unit);
}

/** Texts about requests that an agent made itself. */
const ASKING = {
  purposeOf: "Why, in the agent's own words. Nobody has checked them",
  how: "The agent asked itself, with its API key",
  title: "The refused action",
  lead: "This is what the service knows. It does not come from the agent's words above.",
  application: "Application",
  of: (organization: string) => `of ${organization}`,
  another: "of another account",
  unknownApplication: "Outside this service, or not known",
  needs: "Needs",
  when: "Refused",
  why: "Because",
  noCertificate: "The agent had no authority for it.",
  action: "Action",
  resource: "Resource",
  path: "Path",
  sent: "Sent",
  about: "about",
  notPart:
    "The values that were sent are not part of the action. An approval does not limit them unless you add a limit.",
  payload: "Content of the action",
  payloadUnknown:
    "The action has content that the agent did not show. It can be anything, also another amount or receiver.",
  payloadGone: "The service keeps the content of an action only until the decision.",
  noPayload:
    "The action has no content. What the application checks beside it, such as an amount, is not part of it.",
  unknown: "The service does not know which action it was, so you cannot allow only this one.",
  hashOnly: "The agent did not show the action. The service knows only its fingerprint.",
  lasting: "For how long",
  lastings: {
    once: "Only this action, one time, within 10 minutes",
    days: "For 30 days",
    asked: "Until you end it",
    other: "Until another time, which you choose below",
  },
  onceHint: (scope: string) =>
    `Nothing else is approved than “${scope}” for the refused action. Tick it above. The authority ends after 10 minutes. Its limit of one use in 20 minutes makes sure that it counts only once.`,
  askedHint: "Or until the time that was asked for, if the request names one.",
};

type Sayings = {
  [T in KnownConstraint["type"]]: (constraint: Extract<KnownConstraint, { type: T }>) => string;
};

/** A phrase for each constraint, which continues the words "only if". */
const SAYINGS: Sayings = {
  max_amount: ({ max_amount, currency }) => `the amount is at most ${number(max_amount)} ${currency}`,
  max_rate: ({ count, window_s }) =>
    `it is used at most ${count === 1 ? "once" : `${number(count)} times`} in ${window_s < 60 ? `${window_s} s` : span(window_s)}`,
  time_window: ({ start, end, tz }) =>
    `it is from ${start} to ${end}${end < start ? " the next day" : ""}, by the time of ${tz}`,
  geo_circle: ({ lat, lon, radius_m }) =>
    `the place is within ${distance(radius_m)} of ${position(lat, lon)}`,
  geo_polygon: ({ points }) =>
    `the place is in the area with the corners ${points.map(([lat, lon]) => position(lat, lon)).join("; ")}`,
  geo_bbox(box) {
    const { min, max } = altitudeBounds(box);
    const height = min === 0 && max === 0 ? "" : `, ${number(min)} to ${number(max)} m high`;
    return `the place is between ${position(box.min_lat, box.min_lon)} and ${position(box.max_lat, box.max_lon)}${height}`;
  },
  max_speed_mps: ({ max_mps }) =>
    `the speed is at most ${number(max_mps)} m/s (${number(Math.round(max_mps * 36) / 10)} km/h)`,
  resource_path: ({ resource_id, path_prefix = "/" }) =>
    path_prefix === "/"
      ? `it is about the resource ${resource_id}`
      : `it is about the resource ${resource_id}, at ${path_prefix} or below`,
};

/** Texts about constraints. Pages call them limits. */
const LIMITS = {
  say(constraint: Constraint): string {
    if (!Object.hasOwn(SAYINGS, constraint.type)) {
      const params = "params" in constraint ? ` ${JSON.stringify(constraint.params)}` : "";
      return `the rule ${constraint.type}${params} holds, which this service does not know, so it denies every use`;
    }
    const say = SAYINGS[constraint.type as KnownConstraint["type"]] as (constraint: Constraint) => string;
    return say(constraint);
  },
  center: "Center (latitude, longitude)",
  radius: "Radius",
  map: "See the place on OpenStreetMap (another site)",
  coordinates: (lat: number, lon: number) => `${lat}, ${lon}`,
  meters: (radius: number) => `${radius.toLocaleString("en", { maximumFractionDigits: 20 })} m`,
  clock: "The hours of a day, from midnight on top",
};

function number(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 6 });
}

function distance(metres: number): string {
  return metres < 1_000 ? `${number(metres)} m` : `${number(Math.round(metres) / 1_000)} km`;
}

function position(lat: number, lon: number): string {
  const degrees = (value: number) => `${number(Math.abs(value))}°`;
  return `${degrees(lat)} ${lat < 0 ? "S" : "N"} ${degrees(lon)} ${lon < 0 ? "W" : "E"}`;
}

/** The texts of this file by the names that pages use. */
export const DELEGATION_TEXTS = {
  delegations: DELEGATIONS,
  delegation: DELEGATION,
  revoke: REVOKE,
  revokeMany: REVOKE_MANY,
  asking: ASKING,
  limits: LIMITS,
};
