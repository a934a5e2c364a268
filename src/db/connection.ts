import type { Socket } from "node:net";
import pg from "pg";
import { ConfigError } from "../config.ts";
import { type DatabaseAddress, DatabaseUrlError, readDatabaseUrl } from "../input/database_url.ts";
import { READ_ONLY, sqlState, UnconfirmedCommit } from "./errors.ts";
import { sendThroughPooler } from "./pooler/pooled_query.ts";
import { endStaleSessions } from "./pooler/stale_sessions.ts";

/** Settings of a database connection, which the server's activity view shows under `name`. */
export type ConnectionSettings = {
  url: string;
  name: string;
  /** The server ends a transaction that is idle for this long, so that a frozen process keeps no locks. */
  idleTransactionMs?: number | undefined;
  /** Milliseconds after which the server cancels a statement. Default: never. Set it to answer requests. */
  statementMs?: number | undefined;
  /** Milliseconds after which the server stops waiting for a locked row or table. Default: never. */
  lockMs?: number | undefined;
  /**
   * Milliseconds without data from the server, while a query runs, after which the connection is closed. Must
   * be longer than any statement takes. Default: never.
   */
  silenceMs?: number | undefined;
  /** Milliseconds within which the server must accept the connection. */
  connectMs?: number | undefined;
  /**
   * True if the URL keeps a session for each connection, which the role has checked at its start. Otherwise
   * each connection finds out whether it leads to a pooler, and then relies on nothing that a session keeps.
   */
  keepsSession?: boolean | undefined;
  /** Whether the server may be a standby, and the session read-only, because nothing is written. */
  onlyReads?: boolean | undefined;
  /** Receives each connection before it connects. */
  opened?: ((connection: Connection) => void) | undefined;
};

/** 64-bit integers of Postgres are returned as numbers. Every value stored here is far within ±(2^53−1). */
const INT8 = 20;
const types = {
  getTypeParser(oid: number, format?: "text" | "binary") {
    if (oid === INT8 && format !== "binary") return Number;
    return pg.types.getTypeParser(oid, format as "text");
  },
} as pg.CustomTypesConfig;

const IDLE_TRANSACTION_MS = 30_000;
/** Milliseconds without traffic after which TCP probes whether the server still exists. */
const PROBE_AFTER_MS = 10_000;
/** Milliseconds within which a server must accept a connection. A query waits longer than this for one. */
const CONNECT_MS = 4_000;

/**
 * Parameters of every session. They replace whatever the server, the database or the role has as its default.
 * The driver reads times, bytes and numbers only in these formats, and the statements are written for this
 * isolation level.
 */
export const SESSION = {
  DateStyle: "ISO, YMD",
  IntervalStyle: "postgres",
  TimeZone: "UTC",
  bytea_output: "hex",
  extra_float_digits: "1",
  standard_conforming_strings: "on",
  default_transaction_isolation: "read committed",
  default_transaction_deferrable: "off",
  idle_session_timeout: "0",
  /** A commit that no standby confirms is reported by a warning. */
  client_min_messages: "warning",
  /**
   * The server considers every join order for up to this many tables. With the default of 8, planning one
   * query took longer than the rest of the call. Our statements begin with the filtered table and continue by
   * primary keys.
   */
  join_collapse_limit: "4",
} as const;

/** Returns a session's parameters: {@link SESSION}, its time limits, and the schema that the URL names. */
export function sessionParameters(settings: ConnectionSettings): Record<string, string> {
  const { schema } = addressOf(settings.url);
  return {
    ...SESSION,
    statement_timeout: String(settings.statementMs ?? 0),
    lock_timeout: String(settings.lockMs ?? 0),
    idle_in_transaction_session_timeout: String(settings.idleTransactionMs ?? IDLE_TRANSACTION_MS),
    ...(schema !== undefined && { search_path: schema }),
  };
}

/** The driver's settings of a {@link Connection}. */
export type ConnectionConfig = pg.ClientConfig &
  Pick<ConnectionSettings, "silenceMs" | "keepsSession" | "onlyReads" | "opened"> & {
    parameters?: Record<string, string>;
  };

/** Returns the driver's settings for a {@link Connection}. Throws `ConfigError` if the URL is wrong. */
export function connectionConfig(settings: ConnectionSettings): ConnectionConfig {
  const { connectionString } = addressOf(settings.url);
  return {
    connectionString,
    application_name: settings.name,
    types,
    keepAlive: true,
    keepAliveInitialDelayMillis: PROBE_AFTER_MS,
    connectionTimeoutMillis: settings.connectMs ?? CONNECT_MS,
    parameters: sessionParameters(settings),
    silenceMs: settings.silenceMs,
    keepsSession: settings.keepsSession,
    onlyReads: settings.onlyReads,
    opened: settings.opened,
  };
}

function addressOf(url: string): DatabaseAddress {
  try {
    return readDatabaseUrl(url);
  } catch (error) {
    if (error instanceof DatabaseUrlError) throw new ConfigError(`The database's URL ${error.message}`);
    throw error;
  }
}

/**
 * Returns whether a connection is useless after this error, although the server did not close it. 08: the
 * connection is broken. 25006: the server or the session became read-only. 57P: the server ends. 26000: a
 * pooler has moved the session to another server connection. 42501: the role was dropped or lost its rights,
 * so a new login shows why. XX: the server's process is damaged.
 */
export function endsConnection(error: unknown): boolean {
  return /^(?:08...|25006|26000|42501|57P..|XX...)$/.test(sqlState(error) ?? "");
}

/** The notice has no SQLSTATE of its own, and its text depends on the server's language. */
const UNCONFIRMED_ROUTINE = "SyncRepWaitForLSN";

/** The server accepts no changes. Its SQLSTATE makes it count as temporarily unavailable. */
export class ReadOnlyServer extends Error {
  override readonly name = "ReadOnlyServer";
  readonly code = READ_ONLY;
}

/**
 * Sets the parameters of a session, if it is one. Poolers refuse or ignore parameters at the start of a
 * connection, so they are set afterwards. A pooler gives its clients other process numbers than the server's.
 */
const SET_SESSION = `
select extract(epoch from pg_postmaster_start_time())::text as server,
       pg_backend_pid() = $1 as is_server,
       pg_is_in_recovery() as in_hot_standby,
       current_setting('default_transaction_read_only')::boolean as default_transaction_read_only,
       case when $2 or pg_backend_pid() = $1
         then (select count(set_config(key, value, false)) from json_each_text($3)) end as parameters`;

/** The row of {@link SET_SESSION}. */
type Session = { server: string; is_server: boolean } & Record<(typeof REFUSED)[number][0], boolean>;

/** Parameters that the server reports, and why a session in which they are `on` cannot be used. */
const REFUSED = [
  ["in_hot_standby", "the server is a standby: DATABASE_URL must lead to the primary"],
  [
    "default_transaction_read_only",
    "sessions are read-only: set default_transaction_read_only to off for the server, the database and the role",
  ],
] as const;

/**
 * The only kind of connection to the API's database. `connect` rejects with {@link ReadOnlyServer} if the
 * server accepts no changes. After an error that {@link endsConnection}, or when the server reports that it
 * became read-only, the connection ends as soon as it has no transaction, and its pool replaces it.
 */
export class Connection extends pg.Client {
  /** The parameters that the server has reported, by name. */
  readonly reported = new Map<string, string>();
  /**
   * When the server started, which no two servers share. The text does not depend on the session. Undefined
   * until the connection is open.
   */
  server: string | undefined;
  /** Returns whether the server that started then was the primary and no longer is. */
  isFormer: (server: string) => boolean = () => false;
  readonly #config: ConnectionConfig;
  #isSpent = false;
  #leadsToPooler = false;

  constructor(config: ConnectionConfig = {}) {
    super(config);
    this.#config = config;
    // If a connection is lost while a caller uses it, the caller's next query reports the loss. Without a
    // listener, the error would end the process.
    this.on("error", () => {});
    this.connection.on("parameterStatus", ({ parameterName, parameterValue }: ParameterStatus) => {
      this.reported.set(parameterName, parameterValue);
      if (!this.#leadsToPooler && this.#refusal() !== undefined) this.#isSpent = true;
    });
    this.connection.on("errorMessage", (error: unknown) => {
      if (endsConnection(error)) this.#isSpent = true;
    });
    this.connection.on("notice", ({ routine, message }: { routine?: string; message: string }) => {
      if (routine !== UNCONFIRMED_ROUTINE) return;
      this.connection.emit("error", new UnconfirmedCommit(message));
      this.abandon("a commit is not confirmed");
    });
    config.opened?.(this);
  }

  /** Closes the connection immediately. A running query fails, and counts as temporarily unavailable. */
  abandon(reason: string): void {
    const stream = this.connection.stream as Socket;
    stream.destroy(new Error(`Connection terminated: ${reason}`));
  }

  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const connected = this.#connect();
    if (callback === undefined) return connected;
    connected.then(() => callback(undefined as never), callback);
    return undefined;
  }

  /** Whether the connection leads to a pooler, in whatever mode. */
  get leadsToPooler(): boolean {
    return this.#leadsToPooler;
  }

  async #connect(): Promise<pg.Client> {
    await super.connect();
    try {
      await this.#setSession();
    } catch (error) {
      this.end().catch(() => {});
      throw error;
    }
    // The driver's own listener is earlier. It has already begun the next query, if there is one.
    this.connection.on("readyForQuery", ({ status }: { status: string }) => {
      if (this.#isSpent && status === "I" && owesNothing(this)) this.#endIdle();
    });
    this.#giveUpSilent();
    return this;
  }

  async #setSession(): Promise<void> {
    const { parameters = {}, keepsSession = false, connectionTimeoutMillis = CONNECT_MS } = this.#config;
    const processId = (this as { processID?: number }).processID;
    const values = [processId, keepsSession, JSON.stringify(parameters)];
    const query = { text: SET_SESSION, values, query_timeout: connectionTimeoutMillis };
    const { rows } = await super.query<Session>(query);
    const { server, is_server, ...session } = rows[0] as Session;
    for (const [name, isOn] of Object.entries(session)) this.reported.set(name, isOn ? "on" : "off");
    const isFormer = this.isFormer(server);
    const refusal = isFormer ? "another server is the primary" : this.#refusal();
    if (refusal !== undefined) {
      if (!is_server) await endStaleSessions(this, isFormer ? server : null);
      throw new ReadOnlyServer(refusal);
    }
    this.server = server;
    this.#isSpent = false;
    this.#leadsToPooler = !is_server;
    if (!is_server && !keepsSession) await sendThroughPooler(this, parameters);
  }

  #refusal(): string | undefined {
    if (this.#config.onlyReads) return undefined;
    for (const [name, reason] of REFUSED) if (this.reported.get(name) === "on") return reason;
    return undefined;
  }

  #endIdle(): void {
    // Knex gives out no connection with this mark, even before the socket has closed.
    Object.assign(this, { __knex__disposed: "the server ended it or became read-only" });
    this.end().catch(() => {});
  }

  /** TCP alone notices a vanished machine only after a quarter of an hour. */
  #giveUpSilent(): void {
    const { silenceMs } = this.#config;
    if (silenceMs === undefined) return;
    const stream = this.connection.stream as Socket;
    stream.setTimeout(silenceMs, () => {
      if (!owesNothing(this)) this.abandon("the server is silent");
    });
  }
}

type ParameterStatus = { parameterName: string; parameterValue: string };

function owesNothing(client: pg.Client & { readyForQuery?: boolean }): boolean {
  return client.readyForQuery === true;
}

/** Returns a connection of its own, outside of a pool. It has not connected yet. Close it after use. */
export function openConnection(settings: ConnectionSettings & { queryMs?: number }): Connection {
  const { queryMs } = settings;
  return new Connection({
    ...connectionConfig(settings),
    ...(queryMs !== undefined && { query_timeout: queryMs }),
  });
}
