/**
 * States beyond active and disabled, requests that wait for a second admin, and what authenticates both:
 * `state_mac` covers a row's state and `state_seq`, the number of the audit record that gave it this state,
 * so that an earlier state put back is found too.
 */
export const lifecycle = {
  name: "0003_lifecycle",
  sql: `
    ALTER TABLE keys
      DROP CONSTRAINT keys_state_check,
      DROP CONSTRAINT keys_check,
      ADD COLUMN pending jsonb,
      ADD COLUMN destroy_at timestamptz(3),
      ADD COLUMN state_seq bigint,
      ADD COLUMN state_mac bytea CHECK (octet_length(state_mac) = 32),
      ADD CHECK (state IN ('active', 'disabled', 'destroying', 'destroyed')),
      ADD CHECK ((state = 'active') = (disabled_at IS NULL)),
      ADD CHECK ((state IN ('destroying', 'destroyed')) = (destroy_at IS NOT NULL));
    CREATE INDEX keys_destroying ON keys (destroy_at) WHERE state = 'destroying';

    ALTER TABLE tenants
      ADD COLUMN state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'destroying', 'destroyed')),
      ADD COLUMN pending jsonb,
      ADD COLUMN destroy_at timestamptz(3),
      ADD COLUMN state_seq bigint,
      ADD COLUMN state_mac bytea CHECK (octet_length(state_mac) = 32),
      ADD CHECK ((state IN ('destroying', 'destroyed')) = (destroy_at IS NOT NULL));
    CREATE INDEX tenants_destroying ON tenants (destroy_at) WHERE state = 'destroying';
    CREATE INDEX tenants_by_kek ON tenants (kek, tenant);

    CREATE INDEX audit_key_changes ON audit (key_id, seq)
      WHERE outcome = 'granted' AND statement IN
        ('key_disable', 'key_enable', 'key_destroy', 'key_destroy_cancel', 'key_erase', 'ceiling_shrink');
    CREATE INDEX audit_tenant_changes ON audit ((detail ->> 'tenant'), seq)
      WHERE outcome = 'granted' AND statement IN ('tenant_destroy', 'tenant_destroy_cancel', 'tenant_erase');
  `,
};
