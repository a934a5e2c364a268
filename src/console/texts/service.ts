import type { PartAnswer } from "../../installation/routes.ts";

type Figure = Pick<PartAnswer["figures"][number], "name" | "about" | "value">;

/** Names of figures. `what` is the subject of a figure that exists for several subjects. */
const FIGURES: Record<string, ((what: string) => string) | undefined> = {
  api_version: () => "Version",
  database_schema: () => "Schema of its database",
  newest_migration: () => "Newest migration",
  vault_state: () => "State",
  vault_certificate_end: () => "The API's certificate for it ends",
  workers: () => "Running workers",
  outbox_shards_free: () => "Shares of the outbox that no worker has",
  event_way: () => "Events are carried by",
  kafka_answers: () => "A worker reached Kafka",
  deputize_outbox_events: () => "Events that wait to be published",
  deputize_outbox_oldest_seconds: () => "The oldest of them has waited",
  deputize_consumer_oldest_seconds: (what) => `Oldest event that waits for ${what}`,
  deputize_dead_letters: (what) => `Events put aside by ${what}`,
  deputize_dead_letters_uncarried: () => "Events put aside that Kafka does not have yet",
  deputize_history_queue_rows: () => "Rows of the history that Kafka does not have yet",
  deputize_history_queue_oldest_seconds: () => "The oldest of them has waited",
  deputize_webhook_deliveries: (what) => `Deliveries that are ${what}`,
  deputize_webhook_endpoints: (what) => `Callbacks that are ${what}`,
  deputize_notices_waiting: () => "Notices to owners that wait",
  deputize_notices_oldest_seconds: () => "The oldest of them has waited",
  sign_in_mails_under_way: () => "Codes on their way to the mail server",
  sign_in_mails_last: () => "The mail server last took a code over",
  operator_clusters: () => "Clusters whose operators are known",
  operator_leads_since: (what) => `${what}: its operator leads since`,
  ledger_reconciled: () => "Last compared",
  deputize_ledger_differences: () => "Differences",
  deputize_ledger_accounts: () => "Accounts compared",
};

const WORDS: Record<string, string | undefined> = {
  "database_schema usable": "as this version needs it",
  "database_schema behind": "behind this version: run deputize migrate",
  "database_schema strange": "of a version that this one does not know",
  "event_way embedded": "the worker and its database alone",
  "event_way kafka": "Kafka",
  "kafka_answers 1": "within the last minute",
  "kafka_answers 0": "not within the last minute",
  "vault_state ready": "open: it signs",
  "vault_state sealed": "sealed: nothing is signed until somebody unseals it",
  "vault_state unreachable": "does not answer",
  "vault_state token_unavailable": "its token does not answer",
  "vault_state audit_unavailable": "it cannot write its audit",
};

/** Texts of the pages for service administrators. */
export const SERVICE = {
  navigation: "Service",
  title: "How the service is doing",
  summary: {
    act: (parts: string) => `Act now: ${parts}`,
    away: (parts: string) => `No answer: ${parts}`,
    look: (parts: string) => `Look at it: ${parts}`,
    well: "Every part answers",
  },
  judged: "The alert rules judge how large or how old a figure may be:",
  asOf: "As of",
  refreshed: "It is updated every 15 seconds where scripts run.",
  again: "Look now",
  states: { well: "Answers", look: "Look at it", act: "Act now", away: "No answer" },
  parts: {
    api: { title: "API", lead: "Answers every call. These figures are of the process that answered you." },
    vault: { title: "Key vault", lead: "Keeps the keys and signs. Decisions go on without it." },
    workers: { title: "Workers", lead: "Carry events and send webhooks." },
    events: { title: "Events", lead: "Events on their way to their receivers." },
    webhooks: { title: "Webhooks", lead: "Events on their way to callback URLs of applications." },
    mail: { title: "Mail", lead: "Sign-in codes, and notices to account owners." },
    operators: { title: "Operators", lead: "Apply the objects that Kubernetes clusters declare." },
    ledger: {
      title: "Ledger",
      lead: "A worker compares credit with what was charged, every hour. deputize reconcile names the accounts.",
    },
  },
  noAnswer: (fault: string) => `It gave no answer: ${fault}.`,
  never: "never",
  nameOf: ({ name, about }: Figure) => FIGURES[name]?.(about ?? "") ?? name,
  wordOf: ({ name, value }: Figure) => WORDS[`${name} ${value}`],
  /** Returns a duration in its two largest units. */
  lasting(seconds: number) {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
    const hours = Math.floor(seconds / 3_600);
    if (hours < 48) return `${hours} h ${Math.floor((seconds % 3_600) / 60)} min`;
    return `${Math.floor(hours / 24)} days ${hours % 24} h`;
  },
  suspended: {
    link: "See which callbacks",
    title: "Suspended callbacks",
    lead: "The worker no longer sends anything to them. Their account must set the callback URL again, or resume it. Then waiting events are sent. Events are dropped after 30 days.",
    caption: "Suspended callbacks, newest first",
    host: "Host",
    noHost: "no callback URL",
    since: "Since",
    reason: "Why",
    reasons: {
      gone: "It answered 410: it wants no further events",
      failing: "It accepted nothing for 120 hours",
    },
    held: "Deliveries that wait",
    atMost: (number: number) => (number === 1_000 ? "1,000 or more" : number.toLocaleString("en")),
    account: "Account",
    connection: "Connection",
    empty: "No callback is suspended.",
  },
};
