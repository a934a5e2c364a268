/** What each grant was of, beside its posting, so that the one can be held against the other. */
export const grantAmounts = {
  name: "0016_grant_amounts",
  sql: `
alter table credit_grants add column amount_micro_usd bigint check (amount_micro_usd > 0);
update credit_grants g set amount_micro_usd = p.amount_micro_usd from ledger_postings p
where p.account_id = g.account_id and p.posted_at = g.posted_at and p.posting_id = g.posting_id;
alter table credit_grants alter column amount_micro_usd set not null;
`,
};
