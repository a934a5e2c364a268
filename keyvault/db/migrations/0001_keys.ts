/** Tenants' data keys and the keys under them. Nothing here is of use without the token. */
export const keys = {
  name: "0001_keys",
  sql: `
    CREATE TABLE tenants (
      tenant text PRIMARY KEY,
      kek text NOT NULL,
      wrapped_data_key bytea NOT NULL,
      created_at timestamptz(3) NOT NULL
    );

    CREATE TABLE keys (
      key_id text PRIMARY KEY CHECK (key_id ~ '^[0-9a-f]{32}$'),
      tenant text NOT NULL REFERENCES tenants,
      purpose text NOT NULL CHECK (purpose IN ('account_root', 'agent', 'service')),
      label text NOT NULL,
      public_key jsonb NOT NULL,
      wrapped_seeds bytea NOT NULL,
      seeds_version integer NOT NULL,
      attestation jsonb NOT NULL,
      ceiling jsonb,
      state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')),
      created_at timestamptz(3) NOT NULL,
      disabled_at timestamptz(3),
      request_key text NOT NULL UNIQUE,
      request_hash bytea NOT NULL,
      CHECK ((state = 'disabled') = (disabled_at IS NOT NULL))
    );
    CREATE INDEX keys_by_tenant ON keys (tenant, created_at, key_id);
  `,
};
