/**
 * A decision that was made elsewhere on an account's authority keeps the names of who decided, as they were
 * then. Those that are there get the names of today.
 */
export const verifierNames = {
  name: "0015_verifier_names",
  sql: `
alter table audit_events add column verifier_platform_name text, add column verifier_organization_name text;
update audit_events e set verifier_platform_name = p.name, verifier_organization_name = a.organization_name
from connections c join platforms p using (platform_id) join accounts a on a.account_id = c.account_id
where e.verifier_account_id = c.account_id and e.connection_id = c.connection_id;
`,
};
