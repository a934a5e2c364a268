/** Rows of decisions and their records, as the driver returns them. */
export type ChallengeKeyRow = { day: number; secret_sealed: Buffer; created_at: Date };

export type AuditEventRow = {
  account_id: string;
  occurred_at: Date;
  event_id: string;
  event_type: "proof.verified" | "proof.rejected" | "proof.presented";
  connection_id: string;
  agent_id: string;
  human_id: string | null;
  cert_id: string | null;
  decision: "allow" | "deny" | "indeterminate" | null;
  decision_reason: string | null;
  required_scope: string | null;
  receipt: string | null;
  receipt_hash: Buffer | null;
  verifier_account_id: string | null;
  verifier_platform_name: string | null;
  verifier_organization_name: string | null;
  /** The driver returns an object. Null for `allow`, and for decisions before migration 0032. */
  explanation: Explanation | null;
};

/** The rule that failed. For a constraint: its members, and the values that it was compared with. */
export type Explanation = {
  rule: string;
  constraint?: string;
  limit?: Record<string, string>;
  sent?: Record<string, string>;
  /** How personal values in `sent` are kept. Absent if there are none. */
  values?: "full" | "rounded" | "hashed";
};

/** The refusal that an agent asks about. */
export type Refusal = {
  /** The denial's receipt. Null if `present` refused the agent, which leaves no record. */
  evaluation_id: string | null;
  /** A decision's reason, or `no_active_delegation`. */
  reason: string;
  required_scope: string;
  refused_at: string;
  /** The application that refused, and whether it is the agent's account's own. Null if it is not known. */
  verifier: { platform_name: string; organization_name: string | null; same_account: boolean } | null;
  explanation?: Explanation;
  /** The action as the agent sent it. Its hash is that of the refused action. */
  operation?: RefusedOperation;
};

/**
 * The refused action. `payload` is canonical JSON. It is absent if the service knows at most its hash, and
 * after the decision.
 */
export type RefusedOperation = {
  action: string;
  resource_id: string;
  requested_path: string;
  with_payload: boolean;
  payload?: string;
};

export type InvocationRow = {
  account_id: string;
  connection_id: string;
  invocation_id: string;
  operation_hash: Buffer;
  event_id: string;
  decided_at: Date;
  error_reason: string | null;
};

/** A month that was archived. */
export type HistoryArchiveRow = {
  starts_at: Date;
  ends_at: Date;
  manifest_hash: Buffer;
  /** An object when read by the driver. An insert passes a JSON string. */
  row_counts: Record<string, number> | string;
  archived_at: Date;
  dropped_at: Date | null;
};

export type OutcomeRow = {
  account_id: string;
  decided_at: Date;
  event_id: string;
  outcome: "executed" | "failed" | "refused_by_receiver" | "not_attempted";
  detail: string | null;
  occurred_at: Date;
  recorded_at: Date;
};

export type BalanceRow = {
  account_id: string;
  balance_micro_usd: number;
  low_at_micro_usd: number;
  next_event_seq: number;
  is_split: boolean;
  terms: CreditTerms;
};

/** When an account pays: before its decisions, with credit, or after them, with an invoice. */
export type CreditTerms = "prepaid" | "postpaid";

/** Part of an account's credit. */
export type BalanceSliceRow = { account_id: string; slice: number; balance_micro_usd: number };

/** An account's whole credit: its balance and all slices. */
export type AccountCreditRow = Pick<
  BalanceRow,
  "account_id" | "balance_micro_usd" | "low_at_micro_usd" | "terms"
>;

export type CreditTermsRow = {
  account_id: string;
  posted_at: Date;
  posting_id: Buffer;
  terms: CreditTerms;
  reason: string;
};

export type LedgerPostingRow = {
  account_id: string;
  posted_at: Date;
  posting_id: Buffer;
  kind: "alpha_credit" | "grant" | "verification";
  debit_book: string;
  credit_book: string;
  amount_micro_usd: number;
};

export type CreditGrantRow = {
  reference: string;
  account_id: string;
  posted_at: Date;
  posting_id: Buffer;
  reason: string;
  amount_micro_usd: number;
};

/** A filter of an account's history that a member keeps. `query` is that of the console's history page. */
export type SavedFilterRow = { account_id: string; person_id: string; name: string; query: string };

/** Row types by table name. */
export type ProofTables = {
  challenge_keys: ChallengeKeyRow;
  audit_events: AuditEventRow;
  saved_filters: SavedFilterRow;
  invocations: InvocationRow;
  outcomes: OutcomeRow;
  history_archives: HistoryArchiveRow;
  balances: BalanceRow;
  balance_slices: BalanceSliceRow;
  account_credit: AccountCreditRow;
  credit_terms: CreditTermsRow;
  ledger_postings: LedgerPostingRow;
  credit_grants: CreditGrantRow;
};
