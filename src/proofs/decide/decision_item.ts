import { canonicalJson } from "../../protocol/encoding/canonical.ts";
import type { Reason } from "./reasons.ts";

/** A genuine proof that waits for its decision. The pure rules have already evaluated it. */
export type DecisionItem = {
  /** The account of the verifying connection. This account pays and keeps the record. */
  accountId: string;
  connectionId: string;
  /** At a customer connection: the customer, whose root alone counts there. Null at an own connection. */
  customerAccountId: string | null;
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  /** The verdict of the pure rules. */
  decision: "allow" | "deny";
  reason: Reason;
  /** If one of these certificates is revoked, the decision is a denial. */
  certificates: { accountId: string; certId: string }[];
  eventId: string;
  decidedAt: Date;
  agentId: string;
  humanId: string;
  /** The account whose root signed the chain. Null if no account's root did: then the verdict is a denial. */
  rootAccountId: string | null;
  certId: string;
  requiredScope: string;
  /** The reason of a denial, in the protocol's wording. */
  errorReason: string | null;
  /** The denial's explanation in canonical JSON. Unused if the statement finds another reason. */
  explanation: string | null;
  /** The operation that the proof is bound to. An operation is decided only once. */
  invocation: { id: string; operationHash: Buffer } | null;
  /** The hash of the operation's action with its verifier. Null for a proof that is bound to nothing. */
  action: Buffer | null;
  /** The sorted scopes that the chain grants. The current ceiling, or an acceptance, may narrow them. */
  grantedScope: string[];
  /** The parts of the receipt's canonical JSON before the decision and after the granted scopes. */
  receiptHead: string;
  receiptTail: string;
  traceparent: string | null;
};

/** SQL type and value of each column, which the statement receives as an array with one element per row. */
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
  explanation: ["text", (item) => item.explanation],
  invocation_id: ["text", (item) => item.invocation?.id ?? null],
  operation_hash: ["bytea", (item) => item.invocation?.operationHash ?? null],
  traceparent: ["text", (item) => item.traceparent],
};

/** Columns of items in the statement for any batch. The one for plain items has only those of `ITEM`. */
const WHOLE_ITEM: Columns<DecisionItem> = {
  ...ITEM,
  customer_account_id: ["uuid", (item) => item.customerAccountId],
};

/**
 * `plain`: no item has an operation, no root belongs to another account, and no connection is a customer's.
 * `whole`: any batch.
 */
export type Form = "plain" | "whole";

const ITEM_OF = { plain: ITEM, whole: WHOLE_ITEM } as const satisfies Record<Form, Columns<DecisionItem>>;

/** A certificate whose state the deciding statement reads for an item. */
type Link = Pick<DecisionItem, "requiredScope" | "action"> & { n: number; accountId: string; certId: string };

const LINK: Columns<Link> = {
  n: ["int", (link) => link.n],
  account_id: ["uuid", (link) => link.accountId],
  cert_id: ["text", (link) => link.certId],
  required_scope: ["text", (link) => link.requiredScope],
  action: ["bytea", (link) => link.action],
};

/**
 * Returns the parameters of the statement of this form: the price of a decision, then the columns of items
 * and of their certificates.
 */
export function parametersOf(items: readonly DecisionItem[], priceMicroUsd: number, form: Form): unknown[] {
  const links = items.flatMap(({ certificates, requiredScope, action }, n) =>
    certificates.map((certificate) => ({ n, requiredScope, action, ...certificate })),
  );
  return [priceMicroUsd, ...arraysOf(ITEM_OF[form], items), ...arraysOf(LINK, links)];
}

function arraysOf<Row>(columns: Columns<Row>, rows: readonly Row[]): unknown[][] {
  return Object.values(columns).map(([, value]) => rows.map(value));
}

/** SQL parameter with the price of a decision. */
export const PRICE = "$1::bigint";
const FIRST_ITEM = 2;

/** Returns SQL that yields the items of a batch as rows. */
export function itemRows(form: Form): string {
  return rowsOf(ITEM_OF[form], "item", FIRST_ITEM);
}

/** Returns SQL that yields the certificates of these items as rows. */
export function linkRows(form: Form): string {
  return rowsOf(LINK, "link", FIRST_ITEM + Object.keys(ITEM_OF[form]).length);
}

/** Returns SQL that yields these columns as rows. `first` is the number of the first parameter. */
function rowsOf<Row>(columns: Columns<Row>, name: string, first: number): string {
  const arrays = Object.values(columns).map(([type], at) => `$${first + at}::${type}[]`);
  return `unnest(${arrays.join(", ")}) as ${name} (${Object.keys(columns).join(", ")})`;
}
