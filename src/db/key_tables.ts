/** Rows of API keys, as the driver returns them. */
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

/** The tables of API keys. */
export type KeyTables = {
  api_keys: ApiKeyRow;
  narrow_keys: NarrowKeyRow;
  key_uses: KeyUseRow;
};
