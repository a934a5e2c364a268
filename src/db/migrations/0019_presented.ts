/** Presented proofs are forgotten with their challenges, oldest first. */
export const presented = {
  name: "0019_presented",
  sql: `
create index audit_events_presented on audit_events (occurred_at) where event_type = 'proof.presented';
`,
};
