import type { Database } from "../../src/db/database.ts";

/** SQL that copies a row of a customer's, with these columns replaced for each copy `m`. */
const copies = (table: string, columns: Record<string, string>, condition = "connection_id = :id") => {
  const replaced = Object.entries(columns).map(([name, value]) => `'${name}', ${value}`);
  return `insert into ${table} select (jsonb_populate_record(t, jsonb_build_object(${replaced.join(", ")}))).*
    from ${table} t cross join made m where t.ctid = (select ctid from ${table} where ${condition} limit 1)`;
};

const CUSTOMER = {
  account_id: "m.account_id",
  connection_id: "m.connection_id",
  agent_id: "m.agent_id",
};

/**
 * Copies a customer connection with its account, a key, an agent and a certificate, for new accounts. The
 * keys, the signatures and the vault know nothing of the copies. Their ids precede those of other
 * connections. Returns the ids of the new connections.
 */
export async function copyCustomers(db: Database, connectionId: string, count: number): Promise<string[]> {
  const statements = [
    copies(
      "accounts",
      {
        account_id: "m.account_id",
        email: "m.account_id || '@example.test'",
        human_id: "m.account_id",
        root_key_id: "m.account_id",
      },
      "account_id = (select customer_account_id from connections where connection_id = :id)",
    ),
    copies("connections", {
      connection_id: "m.connection_id",
      customer_account_id: "m.account_id",
      customer_name: "'Customer ' || m.n",
      verifier_id: "m.connection_id",
      created_at: "now() - make_interval(secs => m.n)",
    }),
    copies("api_keys", { connection_id: "m.connection_id", key_prefix: "m.agent_id" }),
    copies("agents", { ...CUSTOMER, vault_key_id: "null" }),
    copies("delegation_requests", { ...CUSTOMER, request_id: "m.agent_id" }),
    copies("certificates", {
      ...CUSTOMER,
      request_id: "m.agent_id",
      cert_id: "m.agent_id",
      only_at: "m.connection_id",
      ceiling_scope: "'{}'::text[]",
    }),
  ];
  const inserting = statements.map((statement, n) => `made_${n} as (${statement})`).join(",\n");
  const { rows } = await db.raw<{ rows: { connection_id: string }[] }>(
    `with made as materialized (
       select n, gen_random_uuid() as account_id, md5('agent' || gen_random_uuid()) as agent_id,
         ('00000000' || substr(gen_random_uuid()::text, 9))::uuid as connection_id
       from generate_series(1, :count::int) as n),
     ${inserting}
     select connection_id from made`,
    { id: connectionId, count },
  );
  return rows.map(({ connection_id }) => connection_id);
}
