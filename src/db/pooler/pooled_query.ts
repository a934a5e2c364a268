import pg from "pg";
import { sqlState } from "../errors.ts";

/** The part of the driver's query that this file relies on. */
type DriverQuery = {
  text: string;
  values: unknown[] | undefined;
  name: string | undefined;
  queryMode: string | undefined;
  callback: ((error: Error | null, result?: unknown) => void) | undefined;
  submit(connection: DriverConnection): Error | null;
  prepare(connection: DriverConnection): void;
  handleCommandComplete(message: unknown, connection: DriverConnection): void;
};

/** The part of the driver's protocol connection that this file relies on. */
type DriverConnection = {
  query(text: string): void;
  parse(statement: { text: string }): void;
  bind(portal: object): void;
  execute(portal: object): void;
};

const DriverQuery = pg.Query as unknown as new (...how: unknown[]) => DriverQuery;

const DUPLICATE_STATEMENT = "42P05";
const BEGIN = /^\s*(?:begin|start\s+transaction)\b/i;
const BEGIN_ONLY = /^\s*(?:begin|start\s+transaction)[\s;]*$/i;
const SEVERAL_STATEMENTS = /;\s*\S/;

/** Statements that give a transaction its parameters. They leave nothing behind on the server connection. */
type TransactionSetup = { isolation: string; local: string; config: string };

function transactionSetup(parameters: Record<string, string>): TransactionSetup {
  const { default_transaction_isolation: isolation = "read committed", ...others } = parameters;
  const settings = Object.entries(others).filter(([name]) => !SESSION_ONLY.has(name));
  const local = settings.map(([name, value]) => `set local ${name} = ${pg.escapeLiteral(value)}`);
  const config = settings.map(
    ([name, value]) => `set_config(${pg.escapeLiteral(name)}, ${pg.escapeLiteral(value)}, true)`,
  );
  return {
    isolation: `set transaction_isolation = ${pg.escapeLiteral(isolation)}`,
    local: local.join("; "),
    // Calls every function, but returns no row.
    config: `select where ${config.join(" || ")} is null`,
  };
}

/** Parameters that have no meaning within a transaction. */
const SESSION_ONLY = new Set(["idle_session_timeout", "default_transaction_deferrable"]);

/**
 * Gives each transaction of a connection its parameters, because a pooler may give each transaction to
 * another server connection.
 */
export async function sendThroughPooler(
  client: pg.Client,
  parameters: Record<string, string>,
): Promise<void> {
  const keepsNames = await keepsStatements(client);
  const setup = transactionSetup(parameters);
  const isIdle = () => client.getTransactionStatus() === "I";
  const submit = client.query.bind(client) as (query: unknown) => void;
  const query = (...how: unknown[]): unknown => {
    const [first] = how;
    if (typeof first === "object" && first !== null && "submit" in first) return submit(first);
    const pooled = new PooledQuery({ setup, isIdle, keepsNames }, how);
    if (pooled.callback !== undefined) return submit(pooled);
    return new Promise((resolve, reject) => {
      pooled.callback = (error, result) => (error ? reject(error) : resolve(result));
      submit(pooled);
    });
  };
  Object.assign(client, { query });
}

const PROBE = "deputize_probe";

/**
 * Returns whether the pooler prepares a statement again on each server connection that needs it, as PgBouncer
 * does since 1.21. Such a pooler gives statements names of its own. Otherwise a statement must be planned for
 * each use, because the next transaction may use a server connection without it.
 */
async function keepsStatements(client: pg.Client): Promise<boolean> {
  const text = `select not exists (select from pg_prepared_statements where name = '${PROBE}') as renamed`;
  try {
    const { rows } = await client.query<{ renamed: boolean }>({ name: PROBE, text });
    return rows[0]?.renamed === true;
  } catch (error) {
    if (sqlState(error) === DUPLICATE_STATEMENT) return false;
    throw error;
  }
}

type Pooled = { setup: TransactionSetup; isIdle: () => boolean; keepsNames: boolean };

/**
 * A query through a pooler that may use another server connection for each transaction. Gives each
 * transaction its parameters.
 *
 * A statement outside of a transaction needs no further round trip. The parameters and the statement are sent
 * together, and Postgres runs everything up to the protocol's `Sync` message in one transaction.
 */
class PooledQuery extends DriverQuery {
  readonly #setup: TransactionSetup;
  readonly #isIdle: () => boolean;
  readonly #name: string | undefined;
  /** Numbers of commands before and after those of the caller. The caller does not see their results. */
  #before = 0;
  #after = Number.POSITIVE_INFINITY;
  #sendsSetup = false;

  constructor({ setup, isIdle, keepsNames }: Pooled, how: unknown[]) {
    super(...how);
    this.#setup = setup;
    this.#isIdle = isIdle;
    this.#name = keepsNames ? this.name : undefined;
    // The driver reads the name when the server has parsed a statement. The first ones are not the caller's.
    Object.defineProperty(this, "name", { get: () => (this.#before > 0 ? undefined : this.#name) });
  }

  override submit(connection: DriverConnection): Error | null {
    if (typeof this.text !== "string" || !this.#isIdle()) {
      return super.submit(connection);
    }
    const { isolation, local } = this.#setup;
    const hasValues = (this.values?.length ?? 0) > 0;
    if (BEGIN.test(this.text)) {
      const begin = this.text.replace(/[\s;]+$/, "");
      this.#after = 1;
      connection.query([begin, ...(BEGIN_ONLY.test(begin) ? [isolation] : []), local].join("; "));
      return null;
    }
    if (!hasValues && SEVERAL_STATEMENTS.test(this.text)) {
      this.#before = local.split("; ").length + 1;
      connection.query([isolation, local, this.text].join("; "));
      return null;
    }
    this.#sendsSetup = true;
    this.queryMode = "extended";
    return super.submit(connection);
  }

  override prepare(connection: DriverConnection): void {
    const statements = this.#sendsSetup ? [this.#setup.isolation, this.#setup.config] : [];
    for (const text of statements) {
      connection.parse({ text });
      connection.bind({});
      connection.execute({});
    }
    super.prepare(connection);
    this.#before = statements.length;
  }

  override handleCommandComplete(message: unknown, connection: DriverConnection): void {
    if (this.#before > 0) {
      this.#before -= 1;
    } else if (this.#after > 0) {
      this.#after -= 1;
      super.handleCommandComplete(message, connection);
    }
  }
}
