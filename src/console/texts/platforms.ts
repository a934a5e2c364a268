import { span } from "./decisions.ts";

/** Notices after changes to a platform, a connection or a cluster. */
export const PLATFORM_NOTICES = {
  changed: "Changed.",
  published: "The platform is published.",
  unpublished: "The platform is a draft again.",
  accepted: "Accepted.",
  acceptance_ended: "The identity is no longer accepted.",
  adoption_confirmed: "Confirmed. The object may take the platform over, once.",
  adoption_withdrawn: "Withdrawn. No object may take the platform over.",
  key_ended: "The key has ended.",
  keys_ended: "The former keys have ended. Only the current key is valid.",
  connection_removed: "The platform and its connection are removed.",
  namespace_accepted: "The namespace acts for you within these bounds.",
  namespace_ended: "The namespace no longer acts for you.",
  approver_linked: "Linked. The user's decisions in the cluster count as this person's.",
  approver_unlinked: "Unlinked. Their decisions no longer count.",
};

/** Texts of the fields in which scopes are selected. */
export const PICKER = {
  search: "Search these",
  chosen: (number: number) => `${number} chosen`,
  sensitive: "sensitive: only by its name, never by a wildcard",
  all: "all of the group but the sensitive ones",
  others: "Your own scopes",
  othersHint: "One on each line, of the form custom:<area>:<action>, for instance custom:orders:refund.",
};

export const PLATFORMS = {
  navigation: "Platforms",
  title: "Platforms",
  lead: "A platform represents one of your applications. It has an API key, agents, and a ceiling: the most that its agents may ever do.",
  none: "There is no platform yet. Register one to get an API key for your application.",
  register: "Register a platform",
  oneOnly: "A personal account has one platform. An organization may have any number.",
  toTheOne: (name: string) => `Open ${name}`,
  clusters: "Clusters that act for you",
  name: "Name",
  state: "State",
  states: {
    draft: "draft",
    pending_review: "in review",
    published: "published",
    suspended: "publishing suspended",
  },
  key: "API key",
  registered: "Registered",
  callback: "Callback",
  callbackStates: { active: "active", paused: "paused", suspended: "suspended" },
  noCallback: "none set",
  declared: "Declared in Kubernetes",
  declaredBy: (cluster: string, namespace: string | null, name: string | null) =>
    namespace === null ? `in cluster ${cluster}` : `Platform ${namespace}/${name} in cluster ${cluster}`,
  declaredExplain:
    "This platform is declared by an object in Kubernetes. Change its name, description, ceiling and accepted identities there: what is changed elsewhere is undone or refused.",

  newTitle: "Register a platform",
  newLead:
    "Its type is Agentic API, the only type that can be registered. It begins as a draft, and works immediately.",
  nameHint: "People see it when an agent asks them for something.",
  description: "Description",
  descriptionHint: "What it is for, in a sentence or two. You may leave it empty.",
  ceiling: "The most that its agents may ever do",
  ceilingHint:
    "No agent of this platform can be given more, whoever approves. It can be narrowed later, and never widened: choose what the application needs.",
  ceilingEmpty: "Choose 1 to 64 scopes",
  described: {
    legend: "Your words for",
    label: "Label",
    labelHint:
      "Up to 60 characters. People who approve see it instead of the scope. Requests keep the words from when they were made.",
    description: "What it lets an agent do",
    sensitive: "Sensitive",
    sensitiveHint: "People see it last, and must select it themselves.",
  },
  explanations: "Values in explanations of denials",
  explanationsHint:
    "Amounts, places and paths may be personal. The history keeps them in this form, starting with the next decision.",
  explanationValues: {
    full: "In full",
    rounded: "Numbers rounded, texts hashed",
    hashed: "Hashed with a key",
  },
  redirectUris: "Redirect URIs",
  redirectUrisHint: (domain: string | null) =>
    `Where a browser returns after a customer has connected. One on each line, by https${
      domain === null ? ", or by http on this machine while it is a draft" : `, on ${domain} or below it`
    }. They are compared character by character.`,
  callbackUrl: "Callback URL",
  callbackUrlHint: "Where events are sent, by https. You may set it later.",
  submitNew: "Register the platform",
  madeTitle: (name: string) => `${name} is registered`,
  madeLead: "Keep these secrets now: no page shows them again.",
  apiKey: "API key",
  webhookSecret: "Webhook secret: signs what is sent to your callback URL",
  otherSecret: "The platform's signing secret",
  otherSecretLead:
    "With it, your server exchanges the code of a customer who connects. Nothing else uses it.",
  next: "What comes next",
  tryKey: "Try the key. This lists the platform's agents, none at first:",
  keyPlaceholder: "Put the key where it says $API_KEY.",
  makeAgent: "Make its first agent",
  setCallback: "Set where events are sent, and test it",
  openPlatform: "Open the platform",
  onceTitle: "This was done already",
  onceMade:
    "The platform was registered when the form was sent the first time, and its secrets were shown then. No page shows them twice. If you did not see them, open the platform and replace its API key, its webhook secret and its signing secret.",

  facts: "The platform",
  type: "Type",
  id: "Platform id",
  connection: "Connection",
  connectionLead: "How your application reaches this service: its API key, its name, its callback.",
  openConnection: "Keys and settings",
  openCallback: "Callback",
  openDeliveries: "Deliveries",
  change: "Change it",
  authority: "Whose authority counts",
  authorityLead:
    "Your own account's authority always counts. The authority of others counts only if the platform accepts their root identity.",
  authorityLink: "Accepted identities",
  adoptionLead:
    "A Platform object in a cluster may take this platform over, with its secrets, once an owner has confirmed it.",

  publishing: "Publishing",
  publishingLead:
    "A published platform shows a domain that you have verified, so that people who are asked to approve something know that the platform is yours. Publishing grants no permissions.",
  publishedUnder: (domain: string) => `Published under ${domain}.`,
  removing: "Being removed",
  removingNow:
    "The platform is removed, and nothing is allowed there anymore. The connections of its customers are ending, which can take some minutes. This page then disappears.",
  suspendedNow:
    "Its domain is no longer verified, so publishing is suspended. Publish the platform again under another domain.",
  personalOnly: "Only an organization publishes its platforms.",
  needsDomain: "No domain of your organization is verified yet.",
  domains: "Verify a domain",
  domain: "Domain",
  publish: "Publish",
  unpublish: "Make it a draft again",
  ownersPublish: "An owner of the organization can publish it.",

  changeTitle: (name: string) => `Change ${name}`,
  narrow:
    "Untick what agents may no longer do. This applies immediately, also to approved delegations, and cannot be undone.",
  save: "Save",

  acceptedTitle: "Accepted identities",
  acceptedLead: (name: string) =>
    `Accounts whose authority ${name} accepts besides your own account's. Their agents are then allowed what they have granted and you accept.`,
  ownIdentity: "Your own root identity, for others to accept:",
  noneAccepted: "Nobody else's authority counts here.",
  human: "Root identity",
  scopes: "Accepted scopes",
  until: "Until",
  untilEnded: "ended",
  noEnd: "without an end",
  accept: "Accept an identity",
  acceptHint:
    "An account's root identity is the name under which its approvals are signed: 32 characters. An organization's members find it on the organization's page, a person finds their own under Your account.",
  acceptScopes: "What is accepted from them",
  acceptScopesHint:
    "Custom scopes one by one, without wildcards. Accepting an identity again replaces what was accepted.",
  lastDay: "Last day",
  lastDayHint: "In UTC; it ends with the day. Leave it empty to accept until you end it.",
  acceptSubmit: "Accept",
  endAcceptance: "End an acceptance",
  endAcceptanceHint: "From then on no decision allows anything on their authority.",
  endSubmit: "End it",
  nobodysIdentity: "There is no account with this root identity",
  alwaysCounts: "This is your own account's root identity, which counts everywhere",
  noSuchDay: "There is no such day: write year, month and day, such as 2026-03-01",
  dayIsOver: "This day is over: give today or a later one",
  dayTooLate: "Give a day before 9999-12-31, or leave it empty for no end",
  notAnIdentity: "A root identity has 32 characters, 0–9 and a–f",

  adoptionExplain: (name: string) =>
    `Confirm which object may take ${name} over. From then on the object determines its name, description, ceiling and accepted identities. The API key is replaced and put into a Secret in the cluster. A confirmation can be used once.`,
  adoptionSpec: "The object names this platform:",
};

export const CONNECTIONS = {
  title: (platform: string) => `Connection of ${platform}`,
  lead: "The application's side: the API key by which it is known, the name that proofs are bound to, and where events go.",
  settings: "Settings",
  verifier: "Verifier name",
  verifierExplain: "Proofs are made for this name, and refused under any other.",
  registry: "Answers without a proof",
  registryOn: "yes: AuthZEN questions are answered from what is approved",
  registryOff: "no: a decision needs a proof",
  outside: "Outside verifiers",
  noOutside: "none: agents answer challenges of this service only",
  id: "Connection id",
  platform: "Platform",
  agents: "Agents",
  noAgents: "none yet; your application makes them with its API key",
  someAgents: (number: number, more: boolean) =>
    `${number}${more ? " or more" : ""} ${number === 1 ? "agent" : "agents"}`,
  callback: "Callback",
  openCallback: "Callback and webhook secret",
  deliveries: "Deliveries",
  change: "Change the settings",
  history: "Its decisions in the history",

  keys: "API keys",
  keysLead:
    "Only the beginning of a key is shown. If you lose the full key, replace it. If you lose another key, end it and make a new one.",
  keysTable: "API keys of this connection",
  key: "Begins with",
  made: "Made",
  keyFor: "For",
  keyRoles: { full: "everything on this connection", verify: "verifying only", agent: "the agent" },
  madeByPerson: "by a member",
  madeByOperator: "by the operator, for the agent's Secret in Kubernetes",
  madeWith: "with the key",
  keyUsed: "Last used",
  keyUnused: "never",
  newNarrowKey: "New key for one purpose",
  newNarrowKeyLead:
    "Give it to an agent that only proves its own authority, or to an application that only verifies. Whoever gets such a key can do nothing else with it.",
  makeNarrowKey: "Make the key",
  endNarrowKey: "End a key",
  endNarrowKeyLead: "The agent or the application that uses the key is refused from then on.",
  onceNarrow:
    "The key was created and shown when you first sent the form. No page shows it twice. If you did not see it, end it and make another one.",
  state: "State",
  current: "current",
  ending: "good until",
  ended: "ended",
  rotate: "Replace the API key",
  endFormer: "End the former keys now",
  endFormerLead: "An application that still uses a former key is refused from then on.",

  rotateTitle: "Replace the API key",
  rotateLead:
    "You get a new key, shown once. The present key stays valid for as long as you choose, so that you can change your application meanwhile.",
  rotateDeclared:
    "This platform is declared in Kubernetes: the operator puts the new key into its Secret automatically.",
  grace: "How long the present key stays good",
  graces: [0, 300, 3_600, 28_800, 86_400].map((seconds) => ({
    seconds,
    label: seconds === 0 ? "Not at all" : span(seconds),
    hint:
      seconds === 0
        ? "It ends immediately: for a key that somebody else may have."
        : seconds === 86_400
          ? "The longest there is."
          : undefined,
  })),
  rotateSubmit: "Replace the key",
  rotatedTitle: "The new API key",
  rotatedLead: "Keep it now: no page shows it again.",
  newKey: "API key",
  formerGood: (prefix: string) => `The former key, ${prefix}…, is good until`,
  formerEnded: (prefix: string) => `The former key, ${prefix}…, has ended.`,
  tryKey: "Try the new key. This lists the platform's agents:",
  back: "Back to the connection",
  onceTitle: "This was done already",
  onceMade:
    "The key was replaced when the form was sent the first time, and the new one was shown then. No page shows it twice. If you did not see it, replace the key again.",

  changeTitle: "Change the settings",
  verifierHint:
    "Your application's own name, such as its address. When it is changed, proofs that were made for the former name are refused.",
  registryField: "Answer without a proof",
  registryHint:
    "AuthZEN questions that bring no proof are then answered from what is approved. Whoever has the API key may ask, so leave it off unless your gateway needs it.",
  outsideHint:
    "Names of verifiers of other services, one on each line. Agents answer their challenges only for an operation that names them.",
  save: "Save",

  remove: "Remove the connection",
  removeLead: "Ends the platform and all that belongs to it.",
  removeTitle: (platform: string) => `Remove ${platform}`,
  removeExplain: "This cannot be undone. Immediately and for good:",
  removes: [
    "its API keys are refused,",
    "its agents can no longer prove anything,",
    "every delegation to them is revoked, and requests that wait are withdrawn,",
    "no further events are sent to its callback after those about the removal.",
  ],
  keeps: "The history and its receipts stay.",
  removeDeclared:
    "An object in Kubernetes declares this platform. Delete the object there instead; remove the platform here only when that cluster is gone.",
  removeSure: (platform: string) => `Yes, remove ${platform} for good`,
  removeNotSure: "Tick this to remove it",
  removeSubmit: "Remove it for good",
};
