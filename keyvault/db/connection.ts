import type { Socket } from "node:net";
import pg from "pg";

/**
 * Parameters of every session. They replace the defaults of the server, the database and the role, because
 * the driver reads only these formats and the statements are written for this isolation level.
 */
const SESSION = {
  DateStyle: "ISO,YMD",
  IntervalStyle: "postgres",
  TimeZone: "UTC",
  bytea_output: "hex",
  extra_float_digits: "1",
  standard_conforming_strings: "on",
  default_transaction_isolation: "read\\ committed",
  default_transaction_deferrable: "off",
  statement_timeout: "0",
  lock_timeout: "0",
  idle_in_transaction_session_timeout: "30000",
  idle_session_timeout: "0",
};

/** The parameters as an option of the driver. */
export const OPTIONS = Object.entries(SESSION)
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(" ");

/** The text does not depend on the session. */
const SERVER = "select extract(epoch from pg_postmaster_start_time())::text as server";
/** Errors after which a connection is useless: it is broken, read-only or without rights, or it ends. */
const ENDING = /^(?:08...|25006|42501|57P..|XX...)$/;
/** Parameters that the server reports, and that are `on` if it accepts no changes. */
const READ_ONLY = ["in_hot_standby", "default_transaction_read_only"];

/**
 * A connection to the vault's database. `connect` rejects with SQLSTATE 25006 if the server accepts no
 * changes. If the server later becomes read-only, or after another error that makes the connection useless,
 * the connection ends as soon as it has no transaction.
 */
export class Connection extends pg.Client {
  /** When the server started, which no two servers share. Undefined until the connection is open. */
  server: string | undefined;
  #isReadOnly = false;
  #isSpent = false;

  constructor(config: pg.ClientConfig & { opened?: Opened } = {}) {
    super(config);
    // The caller's next query reports a lost connection. Without a listener, the loss would end the process.
    this.on("error", () => {});
    this.connection.on("parameterStatus", ({ parameterName, parameterValue }: Reported) => {
      if (READ_ONLY.includes(parameterName) && parameterValue === "on") {
        this.#isReadOnly = true;
        this.#isSpent = true;
      }
    });
    this.connection.on("errorMessage", ({ code }: { code?: string }) => {
      if (ENDING.test(code ?? "")) this.#isSpent = true;
    });
    config.opened?.(this);
  }

  /** Closes the connection immediately. A running query fails. */
  abandon(): void {
    (this.connection.stream as Socket).destroy(new Error("Connection terminated: the primary has changed"));
  }

  override async connect(): Promise<pg.Client> {
    await super.connect();
    try {
      await this.#checkServer();
    } catch (error) {
      this.end().catch(() => {});
      throw error;
    }
    // The driver's own listener is earlier. It has already begun the next query, if there is one.
    this.connection.on("readyForQuery", ({ status }: { status: string }) => {
      if (!this.#isSpent || status !== "I" || !(this as { readyForQuery?: boolean }).readyForQuery) return;
      // Knex gives out no connection with this mark, even before the socket has closed.
      Object.assign(this, { __knex__disposed: "the database ended it or became read-only" });
      this.end().catch(() => {});
    });
    return this;
  }

  async #checkServer(): Promise<void> {
    if (this.#isReadOnly) {
      throw Object.assign(new Error("The database accepts no changes"), { code: "25006" });
    }
    const { rows } = await this.query<{ server: string }>(SERVER);
    this.server = rows[0]?.server;
  }
}

/** Receives each connection before it connects. */
export type Opened = (connection: Connection) => void;

type Reported = { parameterName: string; parameterValue: string };
