/** Texts about the channel that gets an account's requests. */
export const CHANNEL = {
  navigation: "Send them to Slack or Teams",
  title: "Requests in a channel",
  lead: "New requests can appear in a Slack or Microsoft Teams channel too. Nobody can approve there. Each message links to the request.",
  current: "Channel",
  none: "No channel is connected. Requests go only to the people who decide, by mail.",
  app: "App",
  apps: { slack: "Slack", teams: "Microsoft Teams" },
  host: "Host",
  setBy: "Connected by",
  unknown: "Somebody who has left",
  posted: "Last message",
  never: "none yet",
  fault: "Last attempt failed",
  faultOf: (fault: string) =>
    ({
      timeout: "The app did not answer in time.",
      dns: "The host name was not found.",
      connect: "The app could not be reached.",
      network: "The connection broke.",
      forbidden_address: "The URL leads to a network to which messages must not go.",
      unprepared: "The service could not read the stored URL. Connect the channel again.",
    })[fault] ?? `The app refused the message (${fault}).`,
  add: "Connect a channel",
  replace: "Connect another channel",
  how: "In Slack, add an incoming webhook to the channel. In Teams, add the workflow that posts to a channel when it gets a webhook request. Copy the URL that the app shows.",
  url: "URL of the incoming webhook",
  urlHint: "Whoever has it can post to the channel. We encrypt it, and nobody can read it here again.",
  save: "Connect the channel",
  remove: "Disconnect the channel",
};

/** Notices after changes of the channel. */
export const CHANNEL_NOTICES = {
  channel_set:
    "Connected. A first message is on its way. Load this page again in a moment to see whether it arrived.",
  channel_removed: "Disconnected. The channel gets no further messages.",
};

/** Texts about the mails that a person gets. */
export const MAILS = {
  title: "Mails",
  lead: "Choose how often we write to you. We also write to you about sign-in codes, invitations, credit, broken callbacks and new cluster users, whatever you choose here.",
  kinds: {
    request_waits: "A request waits for your decision",
    request_lapses: "A request lapses tomorrow or has lapsed, and nobody has decided",
    request_decided: "Somebody decided what you asked for, or it lapsed",
    authority_lent: "You approved a request",
    product_proposed: "A member proposes to connect a product, and you may",
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
