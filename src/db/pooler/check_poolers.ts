import { StartError } from "../../config.ts";
import type { DatabaseUrls } from "../../input/database_url.ts";
import { type Connection, openConnection } from "../connection.ts";

const ANSWER_WITHIN_MS = 5_000;
/** A pooler in transaction mode shows itself in the first round, unless many clients begin transactions. */
const ROUNDS = 5;

const LOSES_SESSIONS =
  "The database is behind a pooler that loses LISTEN and session locks: set DATABASE_DIRECT_URL to a URL of the " +
  "same database without this pooler, or through a pooler in session mode";
const LOSES_TRANSACTIONS =
  "DATABASE_URL leads to a pooler in statement mode, which has no transactions: use transaction or session mode";
const DIFFERENT =
  "DATABASE_URL and DATABASE_DIRECT_URL lead to different databases: both must lead to the same one";

/**
 * Throws `StartError` if a pooler loses something that the service needs: sessions of the direct URL, or
 * transactions of the other URL. Also throws it if the two URLs lead to different databases. Rejects with the
 * error of the driver if a database does not answer.
 */
export async function checkPoolers(urls: DatabaseUrls): Promise<void> {
  const { DATABASE_URL: url, DATABASE_DIRECT_URL: directUrl } = urls;
  if (directUrl === undefined) return requireSessions(url);
  await requireSessions(directUrl);
  await requireSameDatabase(url, directUrl);
}

/** Throws `StartError` if the URL leads to a pooler that loses what a session keeps. */
export async function requireSessions(url: string): Promise<void> {
  await withConnection(url, async (first) => {
    if (!first.leadsToPooler) return;
    await withConnection(url, async (second) => {
      if (await shareServers(first, second)) throw new StartError(LOSES_SESSIONS);
    });
  });
}

/**
 * Returns whether both clients get the same server connection, or one client gets several. Asks for the first
 * client twice, because a pooler that takes turns would otherwise give each client the same one each time.
 */
async function shareServers(first: Connection, second: Connection): Promise<boolean> {
  const ofFirst = new Set<number | undefined>();
  const ofSecond = new Set<number | undefined>();
  for (let round = 0; round < ROUNDS; round += 1) {
    ofFirst.add(await serverOf(first)).add(await serverOf(first));
    ofSecond.add(await serverOf(second));
    if (ofFirst.size > 1 || ofSecond.size > 1 || !ofFirst.isDisjointFrom(ofSecond)) return true;
  }
  return false;
}

async function serverOf(connection: Connection): Promise<number | undefined> {
  const { rows } = await connection.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid;
}

/** Takes a lock in a transaction through one URL, and checks that it is taken for the other URL. */
async function requireSameDatabase(url: string, directUrl: string): Promise<void> {
  await withConnection(url, async (pooled) => {
    await withConnection(directUrl, async (direct) => {
      const key = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
      const lock = async (connection: Connection) => {
        const sql = "select pg_try_advisory_xact_lock($1) as free";
        const { rows } = await connection.query<{ free: boolean }>(sql, [key]);
        return rows[0]?.free;
      };
      await pooled.query("begin").catch((error: Error) => {
        throw /statement pooling/.test(error.message) ? new StartError(LOSES_TRANSACTIONS) : error;
      });
      await lock(pooled);
      const isFree = await lock(direct);
      await pooled.query("rollback");
      if (isFree) throw new StartError(DIFFERENT);
    });
  });
}

async function withConnection(url: string, use: (connection: Connection) => Promise<void>): Promise<void> {
  const name = "deputize-pooler";
  const [connectMs, queryMs] = [ANSWER_WITHIN_MS, ANSWER_WITHIN_MS];
  const connection = openConnection({ url, name, connectMs, queryMs });
  try {
    await connection.connect();
    await use(connection);
  } finally {
    connection.end().catch(() => {});
  }
}
