/**
 * Whether a challenge is spent, asked only where credit is short. As a function it costs a deciding statement
 * that does not ask nothing; as part of that statement every partition would be opened each time.
 */
export const isSpent = {
  name: "0017_is_spent",
  sql: `
create function is_spent(connection uuid, expiry timestamptz, spent bytea) returns boolean language plpgsql stable as $$
begin
  return exists (
    select from spent_challenges s where s.connection_id = connection and s.expires_at = expiry and s.challenge = spent);
end $$;
`,
};
