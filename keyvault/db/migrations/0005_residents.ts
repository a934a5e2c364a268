/**
 * Keys with halves in the token, by the label that these have there. A row without a key is there before
 * anything is made in the token, so whatever a crash leaves behind is known by its label.
 */
export const residents = {
  name: "0005_residents",
  sql: `
    CREATE TABLE residents (
      label text PRIMARY KEY CHECK (label ~ '^key-[0-9a-f]{32}$'),
      key_id text UNIQUE REFERENCES keys,
      created_at timestamptz(3) NOT NULL
    );
  `,
};
