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

/** Row types by table name. */
export type ProofTables = {
  challenge_keys: ChallengeKeyRow;
  audit_events: AuditEventRow;
  invocations: InvocationRow;
  outcomes: OutcomeRow;
  history_archives: HistoryArchiveRow;
};
