import { REASONS } from "./en_decisions.ts";

/** Fields for what constraints are compared with: how they are called, and what is to be filled in. */
const CONTEXT = {
  amount: { label: "Amount", hint: "A number, such as 12.50" },
  currency: { label: "Currency", hint: "As the delegation writes it, such as EUR" },
  latitude: { label: "Latitude", hint: "In degrees, such as 52.52" },
  longitude: { label: "Longitude", hint: "In degrees, such as 13.405" },
  altitude_m: { label: "Altitude", hint: "In metres" },
  speed_mps: { label: "Speed", hint: "In metres a second" },
  resource_id: { label: "Resource", hint: "What is acted on, as the application names it" },
  path: { label: "Path", hint: "Below the resource, such as /orders/7" },
};

/** The words of the page on which somebody tries what an application would be answered. */
export const TRY_IT = {
  navigation: "Try it",
  title: "Try it",
  lead: "See what an application would be answered. You choose a delegation and what the agent wants to do; the three calls of an application are made for you, and every rule is shown.",
  nothing:
    "There is no delegation to try yet. Register a platform, create an agent, and approve its request.",
  toPlatforms: "Platforms",
  choose: "Which delegation?",
  delegation: "Delegation",
  delegationHint: "The newest 100. One that has ended or was revoked shows how that is refused.",
  chooseIt: "Choose",
  option: (agent: string, platform: string, scopes: number, state: string) =>
    `${agent} on ${platform}: ${scopes === 1 ? "1 scope" : `${scopes} scopes`}, ${state}`,
  states: { active: "active", ended: "ended", revoked: "revoked" },
  removed: "The platform was removed, and its agents with it: there is nothing to try any more.",
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
    "An application sends what it knows of the action. What you leave empty is not sent, and what a limit then cannot check is denied.",
  byItself: "The service looks at the clock and counts by itself.",
  context: CONTEXT,
  cost: (usd: string) =>
    `This is a real decision: it costs ${usd} US dollars, is in the history, has a receipt, and counts where the delegation limits how often.`,
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
    "Paste it into a shell, with the platform's API key in the first line. Each time it is a decision of its own.",
  again: "Try something else",
};
