import type pg from "pg";

/**
 * Ends this session if it is read-only. If the whole server or database is, or if the server started at $1,
 * also ends the role's other sessions from this address, this one last. Otherwise does nothing, because a
 * pooler may give this statement to another server than the statement before.
 */
const END_STALE = `
with here as (
  select setting = 'on' as is_read_only,
         pg_is_in_recovery() or (setting = 'on' and source <> 'session')
           or extract(epoch from pg_postmaster_start_time())::text = $1::text as is_stale
  from pg_settings where name = 'default_transaction_read_only'
)
select pg_terminate_backend(pid) from (
  select pid from pg_stat_activity cross join here
  where (is_stale or is_read_only and pid = pg_backend_pid())
    and datname = current_database() and usename = session_user
    and client_addr is not distinct from inet_client_addr()
  order by pid = pg_backend_pid() offset 0
) as stale`;

/**
 * Ends the sessions that a pooler keeps on a server that accepts no changes, or that started at `former` and
 * is no longer the primary. Otherwise the pooler would give them to its clients for as long as that server
 * runs. Never rejects.
 */
export async function endStaleSessions(client: pg.Client, former: string | null): Promise<void> {
  // The server ends this session before it answers.
  await client.query(END_STALE, [former]).catch(() => {});
}
