import type { ScopeDescriptions } from "../input/platform_fields.ts";

/** Rows of connections and API keys, as the driver returns them. */
export type ConnectionRow = {
  connection_id: string;
  /** The account of the platform, which is the publisher of a customer connection. */
  account_id: string;
  /** The platform of an own connection. Null for a customer connection, which has `product_id` instead. */
  platform_id: string | null;
  product_id: string | null;
  /** The customer, and the name that the customer chose to show. Null for an own connection. */
  customer_account_id: string | null;
  customer_name: string | null;
  /** The scopes that the customer chose, expanded. Null for an own connection. */
  allowed_scopes: string[] | null;
  /** The customer's member who connected last. */
  connected_by: string | null;
  verifier_id: string;
  registry_answers: boolean;
  explanation_values: "full" | "rounded" | "hashed";
  /** Names of verifiers outside this service whose challenges the connection's agents may answer. */
  outside_verifiers: string[];
  /** The member who changed this list last. Null if not known, or if the list is empty. */
  outside_verifiers_by: string | null;
  callback_url: string | null;
  /** Null for a customer connection: the callback belongs to the platform's own connection. */
  webhook_secret_sealed: Buffer | null;
  webhook_next_secret_sealed: Buffer | null;
  webhook_next_secret_at: Date | null;
  /** The last request of a declared platform's object for a new API key that was carried out. */
  rotation_request: string | null;
  webhook_former_secret_sealed: Buffer | null;
  webhook_former_until: Date | null;
  next_event_seq: number;
  undelivered_sealed: Buffer | null;
  created_at: Date;
  /** From then on, no decision at the connection allows. */
  removed_at: Date | null;
  /**
   * When the worker next ends what the removed connection still has, or looks whether the customers of its
   * platform have ended. Null if nothing is left to end.
   */
  end_due_at: Date | null;
};

/** The row of an own connection: the one that its platform was registered with. */
export type OwnConnectionRow = ConnectionRow & { platform_id: string; webhook_secret_sealed: Buffer };

export type ApiKeyRow = {
  key_prefix: string;
  key_hash: Buffer;
  account_id: string;
  connection_id: string;
  created_at: Date;
  retires_at: Date | null;
};

export type NarrowKeyRow = {
  key_prefix: string;
  key_hash: Buffer;
  role: "agent" | "verify";
  account_id: string;
  connection_id: string;
  agent_id: string | null;
  /** The prefix of the full key that created it, or `operator` for an object's key. Null if a person did. */
  made_with: string | null;
  created_at: Date;
  ended_at: Date | null;
  /** When a replaced key of an object ends. */
  retires_at: Date | null;
  /** A key that the operator has not stored yet. */
  undelivered_sealed: Buffer | null;
  /** The object's request that led to the key. */
  rotation_request: string | null;
};

export type KeyUseRow = { key_prefix: string; used_at: Date };

/** Columns of a platform as a client of OAuth. */
export type OAuthClientColumns = {
  /** The replaced client secret, and until when it is accepted. Null if there is none. */
  signing_former_sealed: Buffer | null;
  signing_former_until: Date | null;
  /** Addresses to which the service may send a browser back after a customer has decided. */
  redirect_uris: string[];
};

/** The words that a person read before they connected, in their form at that time. */
export type Consent = {
  platform_name: string;
  publisher_name: string;
  /** The verified domain. `null` for a draft. */
  published_domain: string | null;
  account_label: string | null;
  /** The offered scopes, and the platform's words for its custom scopes. */
  scopes: string[];
  scope_descriptions: ScopeDescriptions;
};

export type ConnectCodeRow = {
  code_hash: Buffer;
  request_id: string;
  platform_id: string;
  customer_account_id: string;
  customer_name: string;
  person_id: string;
  redirect_uri: string;
  code_challenge: string;
  scopes: string[];
  consent: Consent;
  /** The approval with which a member connects whose role alone does not allow it. */
  proposal_id: string | null;
  expires_at: Date;
};

/** A proposal to connect a product, or its approval. */
export type ConnectProposalRow = {
  proposal_id: string;
  account_id: string;
  platform_id: string;
  /** The member who proposed last. */
  proposed_by: string;
  scopes: string[];
  account_label: string | null;
  redirect_uri: string;
  created_at: Date;
  /** When the proposal lapses, or when its approval ends. */
  expires_at: Date;
  /** When it was declined, or was found to have lapsed. Null: it waits, or was approved. */
  ended_at: Date | null;
  /** The member who declined it. */
  declined_by: string | null;
} & (
  | { approved_by: null; approved_at: null; consent: null }
  /** `consent`: the words that the member read who approved. */
  | { approved_by: string; approved_at: Date; consent: Consent }
);

export type ConnectConsentRow = {
  consent_id: string;
  connection_id: string;
  person_id: string;
  scopes: string[];
  consent: Consent;
  /** Whether the platform was a draft at that time. */
  is_test: boolean;
  consented_at: Date;
  /** The member who had approved the product in advance, and what this member read. Null: nobody had to. */
  approved_by: string | null;
  approved_at: Date | null;
  approved_consent: Consent | null;
};

/** The tables of connections, of API keys, and of what leads to customer connections. */
export type KeyTables = {
  connections: ConnectionRow;
  connect_codes: ConnectCodeRow;
  connect_consents: ConnectConsentRow;
  connect_proposals: ConnectProposalRow;
  api_keys: ApiKeyRow;
  narrow_keys: NarrowKeyRow;
  key_uses: KeyUseRow;
};
