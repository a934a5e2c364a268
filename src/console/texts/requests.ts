import type { Constraint, KnownConstraint } from "../../protocol/constraints/constraints.ts";
import { altitudeBounds } from "../../protocol/constraints/geometry.ts";
import { span } from "./decisions.ts";

/** Texts about scopes. */
export const SCOPES = {
  sensitive: "sensitive",
  custom: (scope: string, platform: string) => `${scope.slice("custom:".length)}, as ${platform} defines it`,
  tick: "Tick it to allow it.",
  /** Says for some scopes which act, which a person might fear, they do not allow. */
  excludes: {
    "data:read": "Cannot change anything.",
    "data:write": "Cannot delete anything.",
    "data:*": "Cannot change, delete or export anything.",
    "files:read": "Cannot change anything.",
    "comms:message:read": "Cannot write any.",
    "comms:email:read": "Cannot write any.",
    "comms:calendar:read": "Cannot change anything.",
    "contract:read": "Cannot sign anything.",
    "infrastructure:monitor": "Cannot change anything.",
    "payments:receive": "Cannot send any.",
    "payments:*": "Cannot authorize the payments of others.",
    "meeting:attend": "Cannot speak or record.",
  } as Record<string, string>,
  does: (scope: string, platform: string) => `do what ${platform} calls ${scope.slice("custom:".length)}`,
  doesLabelled: (label: string, platform: string) => `do what ${platform} calls “${label}”`,
  says: "says:",
  grants: (scopes: readonly string[]) => `that is ${scopes.join(", ")}`,
};

/** Texts of the list of requests. */
export const REQUESTS = {
  title: "Requests",
  lead: "Agents ask for authority here. Nothing is lent before somebody has approved it.",
  filter: "Filter the list",
  state: "State",
  anyState: "Any",
  agent: "Agent",
  scopes: "Asks for",
  asked: "Asked",
  of: (platform: string) => `of ${platform}`,
  empty:
    "There are no such requests. One comes up when somebody asks for a delegation: on the page of an agent, by the API, or by a Delegation in a cluster.",
  states: {
    pending: "waits",
    approved: "approved",
    denied: "denied",
    expired: "expired",
    withdrawn: "withdrawn",
  },
};

/** Texts of the page on which a person requests a delegation for one of their own agents. */
export const ASK = {
  link: "Ask for a delegation",
  title: (agent: string) => `Ask for a delegation to ${agent}`,
  lead: "Your request waits under Requests until somebody approves all of it or less. Nothing is lent before.",
  scopes: "What it may do",
  scopesHint: "Tick what it needs. This is the most that its platform allows.",
  purpose: "What for",
  purposeHint:
    "The person who decides reads it. One line, such as: Refund customers who cancel within 14 days.",
  nothing: "Tick at least one thing that it may do",
  end: "When it ends",
  endHint: "Leave it empty to let it last until somebody revokes it.",
  sameLimits: "The request has the limits of the former delegation:",
  widenedLimits: "The request has these limits, which would have allowed what was denied:",
  submit: "Ask for it",
};

/** Texts of the page about a request and its decision. */
export const REQUEST = {
  title: {
    pending: (agent: string, organization: string | null) =>
      `${agent} asks to act for ${organization ?? "you"}`,
    approved: (agent: string) => `${agent} was given authority`,
    denied: (agent: string) => `${agent} was denied`,
    expired: (agent: string) => `Nobody decided about ${agent} in time`,
    withdrawn: (agent: string) => `The request of ${agent} was withdrawn`,
  },
  lead: {
    approved: "This is what the certificate says, and what was held back.",
    denied: "The agent got nothing by this request.",
    expired: "A request waits for 7 days. The application can ask again.",
    withdrawn: "The object that made the request is gone, or the request was withdrawn.",
  },
  technical: "Technical details: who asked, ids, key fingerprint, and exactly what is signed",
  product: "A product of",
  isDomain: "has proved this domain",
  unverified: (platform: string) => `Nobody has proved who runs “${platform}”. Approve only if you know it.`,
  personAsked: "asked on",
  askedOn: "Asked on",
  lapses: "The request lapses",
  purposeOf: (person: string | null) => `Why, in the words of ${person ?? "whoever asked"}`,
  mayList: "It may",
  onlyIfOne: (limit: string) => `Only if ${limit}.`,
  endsOn: "Ends",
  endsNever: "Ends only when you end it.",
  endAny: "or when you end it.",
  endUnknown: "The end is not known yet.",
  change: "Change",
  risk: "What could go wrong?",
  risks: (agent: string, what: string, { isLimited, isRated }: { isLimited: boolean; isRated: boolean }) =>
    `“${agent}” could ${what}${isLimited ? ", within the limits," : ""}${isRated ? "" : " as often as it likes"} until it ends. It does not ask you again.`,
  /** Facts that the application must send for a limit, by the limit's type. */
  needed: {
    max_amount: "the amount",
    geo_circle: "the place",
    geo_polygon: "the place",
    geo_bbox: "the place",
    max_speed_mps: "the speed",
    resource_path: "the resource",
  } satisfies Partial<Record<KnownConstraint["type"], string>> as Record<string, string>,
  needs: (what: string) =>
    `For the limits, the application must send ${what} of each use. Without this, the use is denied.`,
  noAmount: (scopes: string, count: number) =>
    `${scopes} usually ${count === 1 ? "has" : "have"} no amount, so the agent may be unable to use ${count === 1 ? "it" : "them"}.`,
  separate: "Lend permissions that have no amount in a second delegation, without this limit",
  separateHint: (all: string) => `This limit would block ${all}. You can revoke each delegation separately.`,
  separated: (scopes: string, count: number) =>
    `${scopes} ${count === 1 ? "is" : "are"} lent separately, without the limit on the amount.`,
  separateRate: "Leave this empty, or untick the second delegation: each delegation would count its own uses",
  nobodyKnows: "Tick at least one thing that it may do.",
  more: (count: number) => `${count} more`,
  approveSome: (ticked: number, all: number) => `${ticked} of ${all}`,
  denyNow: "Deny",
  who: "Who asks",
  purpose: "Why, in their words",
  agent: "Agent",
  platform: "Platform",
  publisher: "Published by",
  published: (name: string, domain: string) => `${name}, which has proved that ${domain} is its own`,
  unpublished: "Nobody has proved a domain for it",
  key: "Key fingerprint",
  custody: { custodial: "Its key is kept in the key vault here.", self_custody: "It keeps its key itself." },
  how: "How",
  byPerson: (email: string) => `${email} asked, signed in here or by the API`,
  connectedBy: "Connected by",
  byKey: "The application asked, with the API key of its connection",
  byObject: (name: string, cluster: string) => `By YAML: the Delegation ${name} in the cluster ${cluster}`,
  user: "Kubernetes user",
  userUnknown: "not known: the Delegation does not say who asked",
  asked: "Asked",
  waitsUntil: "Waits until",
  decided: "Decided",
  decidedHere: (who: string) => `by ${who}`,
  decidedIn: (who: string, cluster: string) => `by ${who} in the cluster ${cluster}`,
  denialReason: "Reason",
  delegation: "Delegation",
  toDelegation: "See the delegation",
  linked: "Linked delegation",
  toLinked: "See the other part of the same approval",
  ends: "Asked until",
  lasting: (seconds: number | null) =>
    seconds === null ? "until somebody revokes it" : `${span(seconds)} after the approval`,
  askedFor: "What was asked for",
  onlyIf: "Only if all of this is so:",
  lent: "What the certificate says",
  lentSeparately: "Lent separately by the same approval",
  held: "Held back",
  heldNothing: "Nothing: all that was asked for was approved.",
  heldEnd: "It ends earlier than was asked for.",
  heldLimit: "Added by the approver, only if all of this is so:",
  end: "End it after",
  endHint: "Leave it empty for what was asked:",
  endNumber: "Ends after",
  endUnit: "Unit",
  units: { "60": "minutes", "3600": "hours", "86400": "days" },
  addLimit: "Add a limit",
  ownLimits: "Limits that you add",
  addLimitHint:
    "A limit holds at every use. An application that leaves out amount, place, speed or resource when it asks for a decision is denied.",
  amount: "Amount",
  amountMax: "At most",
  currency: "Currency",
  currencyHint: "As the application writes it, such as EUR.",
  rate: "How often",
  rateCount: "Times at most",
  rateWindow: "In",
  windows: {
    "60": "a minute",
    "3600": "an hour",
    "86400": "a day",
    "604800": "a week",
    "2592000": "30 days",
  },
  hours: "Hours of the day",
  hoursFrom: "From",
  hoursTo: "To",
  hoursHint: "The last minute counts. An end before the start is on the next day.",
  zone: "Time zone",
  zoneHint: "As the IANA database spells it, such as Europe/Berlin.",
  place: "Place",
  placeHint: "A circle around a place, in degrees.",
  latitude: "Latitude",
  latitudeHint: "North is positive: Berlin has 52.52.",
  longitude: "Longitude",
  longitudeHint: "East is positive: Berlin has 13.40.",
  radius: "Kilometers around it",
  speed: "Speed",
  speedMax: "Meters per second at most",
  speedHint: "50 km/h are 13.9.",
  resource: "Resource",
  resourceId: "Id of the resource",
  resourceHint: "As the application names it.",
  pathPrefix: "Path",
  pathHint: "With all below it, such as /orders. Empty: all of the resource.",
  notANumber: "Write a number without marks between thousands, such as 12.5",
  twoReadings: (one: string, other: string) =>
    `This can be read as ${one} or as ${other}. Write it as one of the two`,
  tooLarge: "Write a smaller number",
  notWhole: "Write a whole number",
  notPositive: "Write a whole number above 0",
  tooLate: (days: number) => `Write at most ${days.toLocaleString("en")} days, or leave it empty`,
  tooNear: "Write 0.001 or more: a metre",
  noZone: "Write the time zone as the IANA database spells it, such as Europe/Berlin",
  missing: "Is missing",
  preview: "What the certificate will say",
  previewButton: "Preview",
  sdks: {
    go: "Programs with the published Go SDK will refuse this certificate, because a limit contains <, > or &.",
    python:
      "Programs with the published Python SDK will refuse this certificate, because a limit has a number below 0.0001.",
  },
  notYet: "Nothing can be signed like this yet:",
  may: (platform: string) => `of the platform ${platform} may do this for you:`,
  until: "Until",
  forever: "Until somebody revokes it.",
  raw: "As it is signed, with keys cut short",
  approve: "Approve",
  inCluster:
    "With kubectl only scopes can be held back. An earlier end and limits are given on this page; the Delegation stays as it is.",
  denyTitle: "Deny, and say why",
  denyReason: "Reason",
  denyHint: "The application can read it. You may leave it empty.",
  deny: "Deny the request",
  fourEyes:
    "Your organization requires two people: the person who asked may not approve. Another owner or approver must, and finds the request under Requests.",
  fourEyesConnected:
    "Your organization requires two people: you connected this product, so you may not approve what it asks for. Another owner or approver must, and finds the request under Requests.",
  fourEyesUnknown:
    "Your organization requires two people, and it is not known here who asked. Approve the request in the cluster, or let a person ask again.",
  roleLooks: "Your role lets you see requests. Owners and approvers decide about them.",
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
export const LIMITS = {
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
