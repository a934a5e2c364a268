import { CANONICAL_SCOPES, WILDCARDS } from "./scope_vocabulary.ts";

/** Describes what each scope lets an agent do, by scope group. The key `*` describes the group's wildcard. */
const GROUPS: Record<string, Record<string, string>> = {
  meeting: {
    attend: "Be in a meeting and listen",
    speak: "Speak in a meeting",
    video: "Show video in a meeting",
    chat: "Write in a meeting's chat",
    share_screen: "Share a screen in a meeting",
    record: "Record a meeting",
    "*": "Take part in meetings: listen, speak, chat, show video and a screen",
  },
  "comms:message": {
    read: "Read messages",
    send: "Send messages",
    delete: "Delete messages",
    "*": "Read and send messages",
  },
  "comms:email": {
    read: "Read e-mail",
    send: "Send e-mail",
    delete: "Delete e-mail",
    "*": "Read and send e-mail",
  },
  "comms:calendar": { read: "See a calendar", write: "Change a calendar" },
  comms: { "*": "Read and send messages and e-mail, see and change a calendar" },
  files: { read: "Read files", write: "Change files" },
  identity: { prove: "Prove who it acts for", delegate: "Pass its authority on to other agents" },
  presence: { represent: "Act as if it were the person" },
  transact: { purchase: "Buy", sell: "Sell", "*": "Buy and sell" },
  payments: {
    send: "Send payments",
    receive: "Receive payments",
    authorize: "Authorize payments",
    "*": "Send and receive payments",
  },
  contract: { read: "Read contracts", sign: "Sign contracts" },
  data: {
    read: "Read data",
    write: "Change data",
    delete: "Delete data",
    export: "Take data out of the system",
    share: "Share data with others",
    "*": "Read and share data",
  },
  execute: { tool: "Use tools", code: "Run code", "*": "Use tools" },
  generate: {
    content: "Make texts, pictures or sound",
    deepfake: "Imitate a person's voice or look",
    "*": "Make texts, pictures or sound",
  },
  physical: {
    enter: "Let somebody in, or go in",
    exit: "Let somebody out, or go out",
    actuate: "Set machines in motion",
    manipulate: "Handle objects",
    "*": "Go in and out, and let others in and out",
  },
  robot: {
    operate: "Operate a robot",
    move: "Move a robot",
    interact: "Have a robot deal with people",
    "*": "Operate and move a robot, and have it deal with people",
  },
  drone: {
    fly: "Fly a drone",
    deliver: "Deliver by drone",
    capture: "Take pictures by drone",
    "*": "Deliver and take pictures by drone",
  },
  vehicle: {
    operate: "Drive a vehicle",
    transport: "Have people or goods driven",
    charge: "Charge or fuel a vehicle",
    "*": "Have people or goods driven, and charge a vehicle",
  },
  infrastructure: {
    monitor: "Watch technical systems",
    control: "Control technical systems",
    access: "Get into technical systems",
    "*": "Watch technical systems",
  },
  actuate: { valve: "Open and close valves", motor: "Run motors", switch: "Turn switches" },
};

/** The meaning of each canonical scope and wildcard, in plain English. */
export const SCOPE_WORDS: Readonly<Record<string, string>> = Object.fromEntries(
  [...CANONICAL_SCOPES, ...WILDCARDS.keys()].map((scope) => [scope, wordsOf(scope)]),
);

function wordsOf(scope: string): string {
  const end = scope.lastIndexOf(":");
  const words = GROUPS[scope.slice(0, end)]?.[scope.slice(end + 1)];
  if (words === undefined) throw new Error(`The scope ${scope} has no description`);
  return words;
}
