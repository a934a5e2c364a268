/**
 * Finds the root keys that a tenant was given, which the audit remembers also when a row of theirs is gone.
 */
export const roots = {
  name: "0006_roots",
  sql: `
    CREATE INDEX audit_roots ON audit ((detail ->> 'tenant'))
      WHERE outcome = 'granted' AND statement = 'key_create' AND purpose = 'account_root';
  `,
};
