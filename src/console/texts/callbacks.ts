/** Texts of the page about a connection's callback. */
export const CALLBACKS = {
  parts: {
    label: "Parts of this connection",
    platform: (name: string) => `Platform ${name}`,
    callback: "Callback",
    deliveries: "Deliveries",
    recoveries: "Send a time range again",
    secret: "Webhook secret",
  },
  title: (name: string) => `Callback of ${name}`,
  lead: "When a delegation is approved, denied or revoked, the service notifies your application by a signed HTTP POST to its callback URL.",
  state: "How it is doing",
  states: {
    none: "Not set",
    active: "Works",
    failing: "Failing",
    paused: "Paused",
    suspended: "Suspended",
  },
  explain: {
    none: "Nothing is sent. Events of customers wait for 30 days, and others are not kept for later. Set a URL below.",
    active: "Events are sent as they happen.",
    failing:
      "The receiver does not accept what is sent. Each delivery is tried 10 times over 75 hours. After 120 hours without an accepted delivery, the callback is suspended.",
    paused:
      "Nothing is sent. Waiting and new events are held for 30 days after they were made or last tried. Resume it below.",
    gone: "The receiver answered 410, which means that it wants no further events. Nothing is sent, and events are held for 30 days. Fix the receiver, then resume below, or set another URL.",
    long: "The receiver accepted nothing for 120 hours. Nothing is sent, and events are held for 30 days. Fix the receiver, then resume below, or set another URL.",
  },
  since: "Since",
  url: "Callback URL",
  nextTry: "Next request",
  notBefore: "not before",
  waiting: "To be sent",
  held: "Held",
  number: (count: number) => (count >= 1_000 ? "1,000 or more" : String(count)),
  setTitle: "Where events go",
  urlHint:
    "It begins with https:// and contains a host name, not an IP address. Private addresses are refused, unless the people who run this service allow them.",
  declared:
    "A manifest in a cluster declares this platform. Change the URL there too: the operator puts back what the manifest says.",
  set: "Save",
  change: "What is still to be delivered goes to the new URL.",
  clearTitle: "Remove the callback URL",
  clearHint: "Removes the URL. What is still to be sent is cancelled, and later events are not kept.",
  clear: "Remove the URL",
  testTitle: "Test it",
  testLead:
    "Sends the event `callback.test`, signed like every other. Your receiver should check the signature and answer 204. At most five tests a minute.",
  test: "Send a test event",
  testNot: "A test needs a callback URL that is neither paused nor suspended.",
  testResult: "Result of the test",
  testWaits: "On its way: this takes a second or so.",
  testWaitsLong: "If nothing appears, ask the people who run this service whether its worker runs.",
  look: "Look again",
  whole: "The whole delivery",
  latestTests: "Latest tests",
  pauseTitle: "Pause",
  pauseHint:
    "Nothing is sent until you resume. Waiting and new events are held for 30 days. Use this while you change the receiver.",
  pause: "Pause the callback",
  resumeTitle: "Resume",
  backlog: "What was held",
  replay: "Send it now",
  replayHint: "The oldest first, new events behind it.",
  discard: "Drop it for good",
  discardHint: "It is never sent. If a time range is being sent again, that ends too.",
  resume: "Resume the callback",
} as const;

/** Texts of the page that replaces a webhook secret. */
export const WEBHOOK_SECRET = {
  title: (name: string) => `Webhook secret of ${name}`,
  lead: "Every request to your callback URL is signed with this secret, so that your receiver knows it is genuine. It is replaced in two phases, and no delivery is lost.",
  phase: "State",
  phases: {
    one: "One secret",
    waits: "Two secrets: the next one waits",
    grace: "The new secret is in use, the former one still signs",
  },
  explain: {
    one: "No replacement is in progress. Replace the secret when somebody may have seen it, or as often as your rules say.",
    waits:
      "Requests carry the signatures of both. Nothing happens automatically: this does not change until you continue with step 3.",
    grace:
      "The former secret also signs until then, and ends automatically. A receiver that still has it works until then.",
  },
  since: "Since",
  formerUntil: "The former one signs until",
  declared:
    "A manifest in a cluster declares this platform. Step 3 therefore replaces its API key too, and the operator writes both into its Secret within 12 minutes. The former key is good for a day more.",
  step1: "Step 1: make the next secret",
  step1Lead:
    "It is shown once. From then on requests carry two signatures, and your receiver goes on as it is.",
  rotate: "Make the next secret",
  step2: "Step 2: give it to your receiver",
  step2Lead:
    "Put the next secret where your receiver reads its secrets, besides the current one. It may change over at any moment: a receiver that answers 401 gets the same request once more, signed with the other secret.",
  step2Test: "Then send a test event. Your receiver should answer 204.",
  sample: "A check that takes either secret, in Node",
  sampleHint:
    "Call it with the request's headers and the bytes of its body, before they are parsed. Answer 401 when it says no.",
  step3: "Step 3: use it",
  step3Lead: (header: string) =>
    `The next secret becomes the current one: ${header} is made with it. The former secret also signs, in webhook-signature, for as long as you choose here.`,
  formerEnds:
    "A secret of an earlier change still signs. It ends with this step: a receiver that has only that secret then stops working.",
  grace: "The former secret signs for",
  graces: [
    ["0", "no longer: it ends immediately"],
    ["3600", "an hour"],
    ["86400", "a day"],
    ["604800", "a week"],
  ],
  promote: "Use the next secret",
  againTitle: "The next secret was lost, or seen by somebody",
  againLead: "Make another one. It replaces the waiting secret, which then no longer signs anything.",
  again: "Make another next secret",
  madeTitle: "The next webhook secret",
  made: "Next webhook secret",
  madeNext:
    "Requests carry the signatures of both secrets from now on. Copy it now, give it to your receiver, and go on with step 2.",
  goOn: "Go on with step 2",
  onceTitle: "This was done already",
  onceMade:
    "The next secret was made when the form was sent the first time, and shown then. No page shows it twice. If you did not see it, make another one.",
  back: "Back to the webhook secret",
} as const;
