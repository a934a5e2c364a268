/** Texts for the kinds of events. Pages show an unknown kind unchanged. */
const EVENTS: Record<string, string | undefined> = {
  "connection.created": "The platform was registered, or a customer connected",
  "connection.changed": "A customer changed the scopes",
  "connection.key_rotated": "The API key was replaced",
  "connection.key_created": "An agent key or a verify key was created",
  "connection.key_ended": "An agent key or a verify key ends",
  "connection.removed": "The platform was removed, or a customer's connection ended",
  "delegation.approved": "A request was approved",
  "delegation.denied": "A request was denied",
  "delegation.revoked": "A delegation was revoked",
  "callback.test": "A test of the callback",
};

/** Why the receiver did not respond, and what to check. Pages show an unknown code unchanged. */
const DETAILS: Record<string, string | undefined> = {
  ECONNREFUSED:
    "Nothing listens at that host and port. Check the port, and that the receiver runs and listens outwards.",
  ECONNRESET:
    "The connection was broken off. Check proxies and load balancers in front of the receiver, and its log.",
  EPIPE:
    "The connection was broken off. Check proxies and load balancers in front of the receiver, and its log.",
  HPE_INVALID_CONSTANT: "The receiver's answer is not HTTP. Check the URL's port, and that it expects HTTPS.",
  HPE_HEADER_OVERFLOW: "The headers of the receiver's answer are longer than 64 KiB.",
  TimeoutError:
    "No answer came within 15 seconds. Store the event, answer 204, and do the work afterwards; check firewalls too.",
  ETIMEDOUT: "No connection within 5 seconds. Check firewalls and that the host is reachable.",
  ENOTFOUND: "The host's name is not known. Check how it is spelled, and its DNS record.",
  ETIMEOUT: "The host's DNS servers did not answer. Check its DNS records and servers.",
  ECANCELLED: "The host's DNS servers did not answer in time. Check its DNS records and servers.",
  ESERVFAIL: "The host's name could not be looked up. Check its DNS servers.",
  EHOSTUNREACH: "There is no network route to that host. Check its address and firewalls.",
  ENETUNREACH: "There is no route to that host's network. Check its address and firewalls.",
  ERR_TLS_CERT_ALTNAME_INVALID: "The certificate is for another name than the URL's host.",
  CERT_HAS_EXPIRED: "The receiver's certificate has expired.",
  DEPTH_ZERO_SELF_SIGNED_CERT:
    "The receiver's certificate is self-signed. Use a certificate of an authority that this service knows.",
  SELF_SIGNED_CERT_IN_CHAIN: "The receiver's certificate is of an authority that this service does not know.",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "The receiver sends its certificate without the intermediate certificates.",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "The receiver's certificate is of an authority that this service does not know.",
  "the host has an address that is not allowed":
    "The host has a private or reserved address, so nothing is sent to it. If you intend this, ask the people who run this service to allow that network.",
  internal: "The request could not be made here. Ask the people who run this service.",
};

function adviceOf(status: number): string {
  if (status < 300) return "The receiver took it.";
  if (status < 400) return "Redirects are not followed. Set the URL to which it leads.";
  if (status === 401) {
    return "The receiver says that the signature is wrong. Check which secret it has, and that it checks the bytes of the body as they came.";
  }
  if (status === 403) return "The receiver, or something in front of it, does not let this request through.";
  if (status === 404) return "The receiver has nothing at this path. Check the URL.";
  if (status === 405) return "The path does not accept POST. Check the URL.";
  if (status === 410) {
    return "The receiver says that it wants no further events: the callback is suspended. Resume it if that was a mistake.";
  }
  if ([408, 425, 429].includes(status)) {
    return "The receiver asks to send it later. It is sent once more.";
  }
  if (status < 500) return "The receiver refuses this request. Look at what it answered, and into its log.";
  return "The receiver failed. Look at what it answered, and into its log.";
}

/** Texts of the pages about deliveries. */
export const DELIVERIES = {
  title: (name: string) => `Deliveries of ${name}`,
  lead: "Past and pending deliveries to the callback URL, newest first. Each contains one event, and is shown for 30 days after it was finished.",
  narrow: "Filter the list",
  caption: "Deliveries, newest first",
  empty: "There are no such deliveries. When something happens to a delegation, a delivery appears here.",
  event: "Event",
  events: EVENTS,
  state: "State",
  states: {
    pending: "Waits",
    sending: "Is being sent",
    delivered: "Delivered",
    rejected: "Rejected",
    blocked: "Blocked",
    failed: "Failed",
    held: "Held",
    cancelled: "Cancelled",
  },
  explain: {
    pending: "It waits for its next attempt.",
    sending: "A request is under way.",
    delivered: "The receiver answered 2xx and now has the event.",
    rejected: "The receiver does not want it. It is not tried again automatically.",
    blocked: "Connections to this address are not allowed, so no request was made.",
    failed: "Its attempts are used up. It is not tried again automatically.",
    held: "The callback is paused, suspended or not set. Resume or set it, and this is sent.",
    cancelled: "It is no longer sent, and its body was erased.",
  },
  any: "Any",
  made: "Made",
  from: "Made from",
  before: "Made before",
  attempts: "Attempts",
  last: "Last result",
  noneYet: "None yet",
  next: "Next attempt",
  finished: "Finished",
  deliveryTitle: (event: string) => EVENTS[event] ?? event,
  deliveryId: "Delivery id",
  customer: "Customer",
  customerConnection: "Customer's connection",
  connection: "To",
  outcomes: {
    delivered: "Accepted",
    failed: "Failed",
    rejected: "Rejected",
    gone: "Gone",
    blocked: "Blocked",
    lost: "Lost",
  },
  outcomeLost: "The worker ended during the request, so that its result is not known. It is sent again.",
  details: DETAILS,
  adviceOf,
  attemptsTitle: "Attempts",
  noAttempts: "There was none yet.",
  attemptsOlder: "The latest 20 are shown.",
  attempt: (number: number) => `Attempt ${number}`,
  status: (status: number) => `HTTP ${status}`,
  noAnswer: "No answer",
  took: (ms: number) => (ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`),
  answered: "The answer began with",
  answeredNothing: "The answer had no text.",
  sentTitle: "What is sent",
  body: "Body",
  raw: "The same bytes as they are sent, to copy",
  bodySecret:
    "It carries secrets, such as an API key. Neither it nor what was answered is shown. They are erased once it is delivered.",
  bodyErased: "It is no longer kept.",
  headers: "Headers",
  header: "Header",
  value: "Value",
  perAttempt: "created for each attempt from the secret and the time",
  seconds: "Unix seconds of each attempt",
  resendHint:
    "The same body is sent under the same delivery id, so that a receiver that already has it ignores it. The delivery gets 10 more attempts. At most 60 deliveries a minute can be sent again.",
  resend: "Send it again",
  sendNow: "Send it now",
  resendNot: {
    pending: "It is tried again automatically.",
    sending: "A request is under way.",
    held: "Resume or set the callback, and it is sent.",
    cancelled: "Its body was erased, so that it cannot be sent again.",
    erased: "Its body was erased once it was delivered, so that it cannot be sent again.",
  },
} as const;

/** Texts of the page that sends the deliveries of a time range again. */
export const RECOVERIES = {
  title: (name: string) => `Send deliveries of ${name} again`,
  lead: "After an outage of your receiver, this sends every delivery of a time range again that was not accepted. The oldest are sent first, at most 50 at a time. You can begin this ten times a day.",
  range: "Which deliveries",
  from: "Made from",
  until: "Made before",
  untilHint: "Empty: until now.",
  states: "That are",
  look: "See what would be sent",
  noFrom: "Enter the first moment",
  empty: "The first moment must be before the second one, and in the past.",
  noState: "Tick at least one.",
  stateHints: {
    failed: "All attempts were used up.",
    rejected: "The receiver did not want them.",
    blocked: "The address must not be connected to.",
    delivered: "The receiver has them; it should ignore them by their delivery id.",
  },
  wouldTitle: "What would be sent",
  would: (count: number, more: boolean) => {
    if (count === 0) return "There are no such deliveries in this time.";
    const number = more ? `${count} or more deliveries` : count === 1 ? "1 delivery" : `${count} deliveries`;
    return `${number} would be sent again.`;
  },
  each: ({ count, isMore }: { count: number; isMore: boolean }) => `${count}${isMore ? " or more" : ""}`,
  begin: "Send them again",
  inactive: "That needs a callback URL that is neither paused nor suspended.",
  toCallback: "See the callback",
  open: "A range is being sent again. You can begin the next one when it is done.",
  former: "What was sent again",
  caption: "Ranges that were sent again, newest first",
  none: "No range was sent again yet.",
  begun: "Begun",
  rangeOf: "Made",
  to: "to",
  state: "State",
  recoveryStates: { running: "Under way", done: "Done", cancelled: "Ended early" },
  examined: "Looked at",
  resent: "Sent again",
  leftOut: "Left out",
  leftOutHint: "Deliveries without a body, or with 50 attempts, are left out.",
} as const;
