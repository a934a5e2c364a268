/**
 * Finds the key that was given halves in the token, which the audit remembers also when its rows say
 * otherwise.
 */
export const residentRecords = {
  name: "0007_resident_records",
  sql: `
    CREATE INDEX audit_residents ON audit ((detail ->> 'resident'))
      WHERE outcome = 'granted' AND statement = 'key_create' AND detail ->> 'resident' IS NOT NULL;
  `,
};
