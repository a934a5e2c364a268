/** One genuine proof, judged by the pure rules, waiting to be decided. */
export type DecisionItem = {
  /** Who pays and keeps the record: the account of the connection that verifies. */
  accountId: string;
  connectionId: string;
  challenge: Uint8Array;
  challengeExpiresAt: Date;
  /** The verdict of the pure rules. */
  decision: "allow" | "deny";
  reason: string;
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
