/** Finds the last statement of a sequence, which the audit itself remembers. */
export const sequences = {
  name: "0004_sequences",
  sql: `
    CREATE INDEX audit_sequences ON audit (key_id, statement, (detail ->> 'stream'), seq)
      WHERE outcome = 'granted' AND detail ->> 'stream' IS NOT NULL;
  `,
};
