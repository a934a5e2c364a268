import type { PartAnswer } from "../../installation/part_route.ts";

type Figure = PartAnswer["figures"][number];
type Named = (about: string) => string;

/** What figures are called; `about` is what of several a figure is about, empty for all of them. */
const FIGURES: Record<string, Named | undefined> = {
  api_version: () => "Version",
  database_schema: (about) => `Newest migration, ${SCHEMAS[about] ?? about}`,
  deputize_ready: () => "Can serve calls",
  database_answer: () => "Its database answers in",
  database_connections_used: () => "Connections that calls use",
  database_calls_waiting: () => "Calls that wait for a connection",
  vault_state: () => "State",
  vault_certificate_end: () => "The API's certificate for it ends",
  workers: () => "Workers that live",
  workers_alive_until: () => "Last known to live until",
  outbox_shards_free: () => "Shares of the outbox that no worker has",
  event_way: () => "Events are carried by",
  deputize_measurement_up: () => "A worker could ask Kafka",
  deputize_kafka_consumer_lag: (about) => `Records in Kafka that wait for ${about}`,
  deputize_outbox_events: () => "Events that wait to be published",
  deputize_outbox_oldest_seconds: () => "The oldest of them has waited",
  deputize_consumer_oldest_seconds: (about) => `Oldest event that waits for ${CONSUMERS[about] ?? about}`,
  deputize_dead_letters: (about) =>
    about === "" ? "Events put aside" : `Events put aside by ${CONSUMERS[about] ?? about}`,
  deputize_dead_letters_uncarried: () => "Events put aside that Kafka does not have yet",
  deputize_history_queue_rows: () => "Rows of the history that Kafka does not have yet",
  deputize_history_queue_oldest_seconds: () => "The oldest of them has waited",
  deputize_webhook_deliveries: (about) => `Deliveries ${DELIVERIES[about] ?? about}`.trim(),
  webhook_deliveries_retried: () => "Waiting deliveries that were tried before",
  deputize_webhook_endpoints: (about) => `Callbacks that are ${ENDPOINTS[about] ?? about}`,
  webhook_endpoints_suspended_lately: () => "Suspended within the last hour",
  deputize_notices_waiting: () => "Notices to owners that wait",
  deputize_notices_oldest_seconds: () => "The oldest of them has waited",
  sign_in_mails_under_way: () => "Codes on their way to the mail server",
  sign_in_mails_last: () => "The mail server last took a code over",
  operator_clusters: () => "Clusters whose operators are known",
  operator_leads_since: (about) => `${about}: its operator leads since`,
  operator_epoch: (about) => `${about}: epoch`,
  ledger_reconciled: () => "Last compared",
  deputize_ledger_differences: (about) => DIFFERENCES[about] ?? about,
  deputize_ledger_accounts: () => "Accounts compared",
  ledger_postings: () => "Postings compared",
};

const SCHEMAS: Record<string, string | undefined> = {
  usable: "as this version needs it",
  behind: "which is behind this version: run deputize migrate",
  strange: "which this version does not know",
};
const CONSUMERS: Record<string, string | undefined> = {
  "": "a reader",
  webhooks: "webhooks",
  notices: "notices to owners",
};
const DELIVERIES: Record<string, string | undefined> = {
  "": "that are not over",
  pending: "that wait for their turn",
  sending: "being sent",
  held: "held for callbacks that get nothing",
};
const ENDPOINTS: Record<string, string | undefined> = {
  "": "suspended or paused",
  suspended: "suspended by the worker",
  paused: "paused by their owner",
};
const DIFFERENCES: Record<string, string | undefined> = {
  "": "Differences of any kind",
  balance: "Balances that are not their postings' sum",
  books: "Postings between the wrong books",
  charge_without_decision: "Charges without a decision",
  decision_without_charge: "Decisions without a charge",
  grant_without_record: "Grants without a record",
};

/** Values that are words of programs. */
const WORDS: Record<string, string | undefined> = {
  "deputize_ready 1": "yes",
  "deputize_ready 0": "no",
  "deputize_measurement_up 1": "within the last minute",
  "deputize_measurement_up 0": "not within the last minute",
  "event_way embedded": "the worker and its database alone",
  "event_way kafka": "Kafka",
  "vault_state ready": "open: it signs",
  "vault_state sealed": "sealed: nothing is signed until somebody unseals it",
  "vault_state unreachable": "does not answer",
  "vault_state token_unavailable": "its token does not answer",
  "vault_state audit_unavailable": "it cannot write its audit",
};

/** How the parts of the installation do, for who looks after it. */
export const SERVICE = {
  navigation: "Service",
  title: "How the service is doing",
  summary: {
    act: (parts: string) => `Act now: ${parts}`,
    away: (parts: string) => `No answer: ${parts}`,
    look: (parts: string) => `Look at it: ${parts}`,
    well: "Every part is well",
  },
  asOf: "As of",
  refreshed: "It is looked at anew every 15 seconds where scripts run.",
  again: "Look now",
  states: { well: "Well", look: "Look at it", act: "Act now", away: "No answer" },
  parts: {
    api: { title: "API", lead: "Answers every call. These figures are of the process that answered you." },
    vault: { title: "Key vault", lead: "Keeps the keys and signs. Decisions go on without it." },
    workers: { title: "Workers", lead: "Carry events and send webhooks." },
    events: { title: "Events", lead: "What happened, on its way to who is to hear of it." },
    webhooks: { title: "Webhooks", lead: "Events on their way to callback URLs of applications." },
    mail: { title: "Mail", lead: "Sign-in codes, and notices to account owners." },
    operators: { title: "Operators", lead: "Make declared objects of Kubernetes clusters true." },
    ledger: {
      title: "Ledger",
      lead: "A worker compares credit with what was charged, every hour. deputize reconcile names the accounts.",
    },
  },
  noAnswer: (fault: string) => `It gave no answer: ${fault}.`,
  never: "never",
  alert: "Alert",
  readOn: "what to do",
  nameOf: ({ name, about }: Pick<Figure, "name" | "about">) => FIGURES[name]?.(about ?? "") ?? name,
  wordOf: ({ name, value }: Pick<Figure, "name" | "value">) => WORDS[`${name} ${value}`],
  /** A time span as people say it, in its two largest units. */
  lasting(seconds: number) {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
    const hours = Math.floor(seconds / 3_600);
    if (hours < 48) return `${hours} h ${Math.floor((seconds % 3_600) / 60)} min`;
    return `${Math.floor(hours / 24)} days ${hours % 24} h`;
  },
  milliseconds: (number: number) => `${number} ms`,
  suspended: {
    link: "See which callbacks",
    title: "Suspended callbacks",
    lead: "The worker sends nothing to them any more. Their account has to set the callback URL again, or to resume it: what waits is sent then. It is dropped 30 days after its event.",
    caption: "Suspended callbacks, newest first",
    host: "Host",
    noHost: "no callback URL",
    since: "Since",
    reason: "Why",
    reasons: { gone: "It answered 410: it wants nothing any more", failing: "It took nothing for 120 hours" },
    held: "Deliveries that wait",
    atMost: (number: number) => (number === 1_000 ? "1,000 or more" : number.toLocaleString("en")),
    account: "Account",
    connection: "Connection",
    empty: "No callback is suspended.",
  },
};
