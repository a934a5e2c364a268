import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import type { Reason } from "./reasons.ts";

/** One genuine proof, judged by the pure rules, waiting to be decided. */
export type DecisionItem = {
  /** Who pays and keeps the record: the account of the connection that verifies. */
  accountId: string;
  connectionId: string;
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  /** The verdict of the pure rules. */
  decision: "allow" | "deny";
  reason: Reason;
  /** Certificates whose state the rules consult before their verdict; one that is revoked wins over it. */
  certificates: { accountId: string; certId: string }[];
  eventId: string;
  decidedAt: Date;
  agentId: string;
  humanId: string;
  /** The account whose root signed the chain; null when no account's did, which is a denial already. */
  rootAccountId: string | null;
  certId: string;
  requiredScope: string;
  /** The verdict in the protocol's words, when it is a refusal. */
  errorReason: string | null;
  /** The operation that the proof is bound to, decided once. */
  invocation: { id: string; operationHash: Buffer } | null;
  /**
   * What the chain grants, sorted; a ceiling that shrank since, or what is accepted from another account,
   * narrows it further.
   */
  grantedScope: string[];
  /** The receipt's canonical JSON before its decision and after its granted scopes. */
  receiptHead: string;
  receiptTail: string;
  /** The trace that the call belongs to. */
  traceparent: string | null;
};

/** Columns that are handed over as arrays, one element a row: the type of each, and what it holds. */
type Columns<Row> = Record<string, readonly [type: string, value: (row: Row, n: number) => unknown]>;

const ITEM: Columns<DecisionItem> = {
  n: ["int", (_, n) => n],
  account_id: ["uuid", (item) => item.accountId],
  connection_id: ["uuid", (item) => item.connectionId],
  challenge: ["bytea", (item) => item.challenge],
  challenge_expires_at: ["timestamptz", (item) => item.challengeExpiresAt],
  decision: ["text", (item) => item.decision],
  reason: ["text", (item) => item.reason],
  event_id: ["uuid", (item) => item.eventId],
  decided_at: ["timestamptz", (item) => item.decidedAt],
  agent_id: ["text", (item) => item.agentId],
  human_id: ["text", (item) => item.humanId],
  root_account_id: ["uuid", (item) => item.rootAccountId],
  cert_id: ["text", (item) => item.certId],
  required_scope: ["text", (item) => item.requiredScope],
  receipt_head: ["text", (item) => item.receiptHead],
  receipt_tail: ["text", (item) => item.receiptTail],
  granted: ["text", (item) => canonicalJson(item.grantedScope)],
  error_reason: ["text", (item) => item.errorReason],
  invocation_id: ["text", (item) => item.invocation?.id ?? null],
  operation_hash: ["bytea", (item) => item.invocation?.operationHash ?? null],
  traceparent: ["text", (item) => item.traceparent],
};

/** A certificate of an item whose state is read. */
type Link = { n: number; accountId: string; certId: string; requiredScope: string };

const LINK: Columns<Link> = {
  n: ["int", (link) => link.n],
  account_id: ["uuid", (link) => link.accountId],
  cert_id: ["text", (link) => link.certId],
  required_scope: ["text", (link) => link.requiredScope],
};

/**
 * The statement's parameters: the price of a decision, then the columns of items and of their certificates.
 */
export function parametersOf(items: readonly DecisionItem[], priceMicroUsd: number): unknown[] {
  const links = items.flatMap(({ certificates, requiredScope }, n) =>
    certificates.map((certificate) => ({ n, requiredScope, ...certificate })),
  );
  return [priceMicroUsd, ...arraysOf(ITEM, items), ...arraysOf(LINK, links)];
}

function arraysOf<Row>(columns: Columns<Row>, rows: readonly Row[]): unknown[][] {
  return Object.values(columns).map(([, value]) => rows.map(value));
}

/** The parameter with the price of a decision. */
export const PRICE = "$1::bigint";
const FIRST_ITEM = 2;
const FIRST_LINK = FIRST_ITEM + Object.keys(ITEM).length;

/** The items of a batch, as rows. */
export const ITEMS = rowsOf(ITEM, "item", FIRST_ITEM);
/** Their certificates, as rows. */
export const LINKS = rowsOf(LINK, "link", FIRST_LINK);

/** The rows of such columns, whose first parameter has the number `first`. */
function rowsOf<Row>(columns: Columns<Row>, name: string, first: number): string {
  const arrays = Object.values(columns).map(([type], at) => `$${first + at}::${type}[]`);
  return `unnest(${arrays.join(", ")}) as ${name} (${Object.keys(columns).join(", ")})`;
}
