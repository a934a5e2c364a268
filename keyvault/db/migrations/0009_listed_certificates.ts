/**
 * What the last revocation list of each root had, which the next one may not lack. The digest stands in that
 * list's audit record.
 */
export const listedCertificates = {
  name: "0009_listed_certificates",
  sql: `
    CREATE TABLE listed_certificates (
      key_id text NOT NULL REFERENCES keys,
      digest text NOT NULL,
      listed text NOT NULL,
      PRIMARY KEY (key_id, digest)
    );
  `,
};
