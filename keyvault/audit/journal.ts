import type pg from "pg";
import type { Clock } from "../clock.ts";
import type { Opened } from "../db/connection.ts";
import { makeSmallestChange } from "../db/primary.ts";
import type { AuditRow } from "../db/rows.ts";
import { type Refusal, VaultError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Token } from "../token/client.ts";
import type { Register } from "./last_states.ts";
import { type AuditEntry, createRecord, recordBytes } from "./record.ts";
import { catchUp } from "./verify_chain.ts";
import {
  appendRecords,
  closeLedger,
  createHeadNoting,
  type Head,
  type Ledger,
  LedgerMismatch,
  openLedger,
} from "./writer_connection.ts";

const MAX_BATCH = 128;

/**
 * The result of a change. Without an `entry`, nothing changed. `committed` is called when the change is
 * durable.
 */
export type Change<T> = { value: T; entry?: AuditEntry; committed?: () => void };

/**
 * The only writer of the audit chain, and therefore the only way to change the vault's state. Runs one
 * transaction at a time. Each promise resolves when its transaction is on disk. Concurrent records share a
 * transaction. Records and changes are each processed in order. If both wait, they alternate, so no signature
 * waits for more than one change. Calls reject with `VaultError audit_unavailable` if the database does not
 * store the record, and with `token_unavailable` if the token does not chain or note it. The record may then
 * still appear in the audit, but no signature or change that it describes was released.
 */
export type Journal = {
  /**
   * Writes a record and returns true. Calls `stillTrue` just before writing. If `stillTrue` returns false,
   * this function writes nothing and also returns false. Each change takes effect either before `stillTrue`
   * runs or after the record.
   */
  record(entry: AuditEntry, stillTrue?: () => boolean): Promise<boolean>;
  /**
   * Runs `apply` and writes the audit record that it returns, with the number `seq`, in one transaction.
   * Resolves after the token has noted the record. If `apply` throws, rolls everything back and rejects with
   * that error.
   */
  change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>): Promise<T>;
  /** Returns the last record known to be durable. */
  head(): Head;
  /**
   * Checks that records can be written. Reconnects if needed. Rejects with `VaultError audit_unavailable`.
   */
  probe(): Promise<void>;
  /** Waits for all calls so far, then closes the database connection. */
  close(): Promise<void>;
};

type PendingRecord = {
  entry: AuditEntry;
  stillTrue: () => boolean;
  resolve(written: boolean): void;
  reject(error: Error): void;
};

type PendingChange = {
  apply(client: pg.Client, seq: number): Promise<Change<unknown>>;
  resolve(value: unknown): void;
  reject(error: Error): void;
};

/**
 * Dependencies of the journal. The journal keeps `register` up to date with the chain. It calls `reopened`
 * after each reconnect, because other processes may have changed data meanwhile.
 */
export type JournalParts = {
  databaseUrl: string;
  /** Registers each connection of the journal. */
  opened?: Opened;
  token: Token;
  clock: Clock;
  log: Logger;
  register: Register;
  /** Heads at which the parts of the stored snapshot were saved. The chain must contain all of them. */
  taken?: readonly Head[];
  reopened(): void;
};

/**
 * Opens the chain and verifies the records after the register's head. Rejects with `LedgerHeld` if another
 * process writes the chain, with `LedgerMismatch` if this token did not chain one of the records, or with the
 * database's error. If the connection is lost later, the next call reopens it.
 */
export async function openJournal({
  databaseUrl,
  opened: registerConnection,
  token,
  clock,
  log,
  register,
  taken = [],
  reopened,
}: JournalParts): Promise<Journal> {
  const records: PendingRecord[] = [];
  const changes: PendingChange[] = [];
  let ledger: Ledger | undefined;
  let draining = false;
  let running: Promise<void> = Promise.resolve();

  async function connect(): Promise<Ledger> {
    const prepare = (client: pg.Client) => catchUp(client, token, register, taken);
    const opened = await openLedger(databaseUrl, prepare, registerConnection);
    opened.client.once("end", () => lose(opened));
    ledger = opened;
    reopened();
    return opened;
  }

  function lose(lost: Ledger): void {
    if (ledger !== lost) return;
    ledger = undefined;
    register.awaiting([]);
    void closeLedger(lost.client);
    log.warn({ event: "audit_connection_lost" });
  }

  function begin(): void {
    if (draining) return;
    draining = true;
    running = drain();
  }

  async function drain(): Promise<void> {
    while (records.length + changes.length > 0) {
      const batch = records.splice(0, MAX_BATCH);
      if (batch.length > 0) await submit(batch, (current) => writeRecords(current, batch));
      const change = changes.shift();
      if (change !== undefined) await submit([change], (current) => writeChange(current, change));
    }
    draining = false;
  }

  async function submit(
    taken: readonly (PendingRecord | PendingChange)[],
    write: (current: Ledger) => Promise<void>,
  ): Promise<void> {
    try {
      await write(ledger ?? (await connect()));
    } catch (error) {
      const cause = unavailable(error);
      for (const pending of taken) pending.reject(cause);
    }
  }

  async function writeRecords(current: Ledger, batch: readonly PendingRecord[]): Promise<void> {
    const taken = batch.filter((pending) => {
      const wanted = pending.stillTrue();
      if (!wanted) pending.resolve(false);
      return wanted;
    });
    if (taken.length === 0) return;
    const rows = await append(
      current,
      taken.map(({ entry }) => entry),
    );
    register.apply(rows);
    for (const pending of taken) pending.resolve(true);
  }

  async function writeChange(current: Ledger, pending: PendingChange): Promise<void> {
    const { client } = current;
    await onClient(current, () => client.query("begin"));
    let change: Change<unknown>;
    try {
      change = await pending.apply(client, register.head().seq + 1);
    } catch (error) {
      await onClient(current, () => client.query("rollback"));
      return pending.reject(error instanceof VaultError ? error : unavailable(error));
    }
    try {
      const rows = await append(current, change.entry === undefined ? [] : [change.entry]);
      await onClient(current, () => client.query("commit"));
      register.apply(rows);
    } catch (error) {
      await onClient(current, () => client.query("rollback")).catch(() => {});
      throw error;
    }
    try {
      if (change.entry !== undefined) await noting.note();
    } finally {
      change.committed?.();
    }
    pending.resolve(change.value);
  }

  async function append(current: Ledger, entries: readonly AuditEntry[]): Promise<AuditRow[]> {
    if (entries.length === 0) return [];
    const head = register.head();
    const records = entries.map((entry, index) => createRecord(entry, head.seq + 1 + index, clock.now()));
    const macs = await token.chain(head.mac, records.map(recordBytes));
    const rows = records.map((record, index) => ({ ...record, mac: Buffer.from(macs[index] ?? []) }));
    register.awaiting(rows);
    await onClient(current, () => appendRecords(current.client, rows));
    return rows;
  }

  /**
   * Drops the connection if the query fails. After a failed statement, the state of the connection and its
   * writes is uncertain, so the next batch opens a new connection. Also clears the register's uncommitted
   * records, even if the connection had already ended.
   */
  async function onClient<T>(current: Ledger, query: () => Promise<T>): Promise<T> {
    try {
      return await query();
    } catch (error) {
      lose(current);
      register.awaiting([]);
      throw error;
    }
  }

  function unavailable(error: unknown): VaultError {
    if (error instanceof VaultError) return error;
    const event = error instanceof LedgerMismatch ? "audit_mismatch" : "audit_unavailable";
    log.error({ event, reason: error instanceof Error ? error.message : "unknown" });
    return new VaultError("audit_unavailable", undefined, { cause: error });
  }

  await connect();
  const noting = createHeadNoting(register.head, token, log);
  await noting.note();
  const journal: Journal = {
    record: (entry, stillTrue = () => true) =>
      new Promise((resolve, reject) => {
        records.push({ entry, stillTrue, resolve, reject });
        begin();
      }),
    change: <T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>) =>
      new Promise<T>((resolve, reject) => {
        changes.push({ apply, resolve: resolve as (value: unknown) => void, reject });
        begin();
      }),
    head: () => register.head(),
    probe: () => journal.change(async (client) => ({ value: await makeSmallestChange(client) })),
    async close() {
      await running;
      await noting.stop();
      const last = ledger;
      ledger = undefined;
      if (last !== undefined) await closeLedger(last.client);
    },
  };
  return journal;
}

/** Records a refusal before the caller receives it, so that every attempt is in the audit. */
export async function recordRefusal(
  journal: Pick<Journal, "record">,
  entry: Omit<AuditEntry, "outcome">,
  refusal: Refusal,
): Promise<Refusal> {
  await journal.record({ ...entry, outcome: refusal.refused });
  return refusal;
}
