/** Texts about the mails that a person gets. */
export const MAILS = {
  title: "Mails",
  lead: "Choose how often we write to you. We also write to you about sign-in codes, invitations, credit, broken callbacks and new cluster users, whatever you choose here.",
  kinds: {
    request_waits: "A request waits for your decision",
    request_lapses: "A request lapses tomorrow or has lapsed, and nobody has decided",
    request_decided: "Somebody decided what you asked for, or it lapsed",
    authority_lent: "You approved a request",
  },
  choices: { every: "Every time", daily: "At most once a day for each account", off: "Never" },
  save: "Save",
  stopTitle: "Stop these mails?",
  stopLead:
    "You get no further mails of the kind that you came from. You can turn them on again in your account.",
  stop: "Stop these mails",
  stoppedTitle: "Stopped",
  stopped: (kind: string) => `We no longer write to you when this happens: ${kind.toLowerCase()}.`,
  unknownTitle: "This link does not work",
  unknown: "It was cut off or changed. Choose the mails that you want in your account instead.",
  toAccount: "Your account",
};
