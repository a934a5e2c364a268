import { span } from "../en_decisions.ts";

export const CONNECTIONS = {
  title: (platform: string) => `Connection of ${platform}`,
  lead: "The application's side: the API key by which it is known, the name that proofs are bound to, and where events go.",
  settings: "Settings",
  verifier: "Verifier name",
  verifierExplain: "Proofs are made for this name, and refused under any other.",
  registry: "Answers without a proof",
  registryOn: "yes: AuthZEN questions are answered from what is approved",
  registryOff: "no: a decision needs a proof",
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
  keysLead: "Only the beginning of a key is shown. Who lost a key replaces it.",
  keysTable: "API keys of this connection",
  key: "Begins with",
  made: "Made",
  state: "State",
  current: "current",
  ending: "good until",
  ended: "ended",
  rotate: "Replace the API key",
  endFormer: "End the former keys now",
  endFormerLead: "An application that still uses a former key is refused from then on.",

  rotateTitle: "Replace the API key",
  rotateLead:
    "You get a new key, shown once. The present one stays good for as long as you say, so that your application can be changed meanwhile.",
  rotateDeclared:
    "This platform is declared in Kubernetes: the operator puts the new key into its Secret by itself.",
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
  save: "Save",

  remove: "Remove the connection",
  removeLead: "Ends the platform and all that belongs to it.",
  removeTitle: (platform: string) => `Remove ${platform}`,
  removeExplain: "This cannot be undone. Immediately and for good:",
  removes: [
    "its API keys are refused,",
    "its agents can prove nothing any more,",
    "every delegation to them is revoked, and requests that wait are withdrawn,",
    "no event is sent to its callback any more after those that tell of this.",
  ],
  keeps: "The history and its receipts stay.",
  removeDeclared:
    "An object in Kubernetes declares this platform. Delete the object there instead; remove the platform here only when that cluster is gone.",
  removeSure: (platform: string) => `Yes, remove ${platform} for good`,
  removeNotSure: "Tick this to remove it",
  removeSubmit: "Remove it for good",
};
