/**
 * What an account's root key is bounded to: noted before the key is asked for, so that every try asks for the
 * same one.
 */
export const accountCeiling = {
  name: "0007_account_ceiling",
  sql: `
alter table accounts add column root_ceiling text[];
`,
};
