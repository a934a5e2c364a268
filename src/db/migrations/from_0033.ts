/** The ends of proposals to connect products, for the mails to the members who proposed them. */
export const proposalEnds = {
  name: "0033_proposal_ends",
  sql: `
alter table connect_proposals
  -- When the proposal was declined, or was found to have lapsed. Null: it waits, or was approved.
  add column ended_at timestamptz,
  -- The member who declined it. No reference, because the account may be deleted later. Null: it lapsed.
  add column declined_by uuid;
`,
};
