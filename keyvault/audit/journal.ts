import type pg from "pg";
import type { Clock } from "../clock.ts";
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
 * What a change did: its value, its record unless it did nothing, and what to do in this process the moment
 * it is durable.
 */
export type Change<T> = { value: T; entry?: AuditEntry; committed?: () => void };

/**
 * The audit chain's only writer, and through it the only way to change the vault's state: everything it is
 * given is taken one transaction at a time, and resolves when it is on disk. Concurrent records share a
 * transaction. Records are taken in order, and so are changes; where both wait they take turns, so that no
 * signature waits for more than one change, however many there are.
 *
 * Rejects with `VaultError audit_unavailable` when the database does not take the record, and with
 * `token_unavailable` when the token does not chain or note it; the record may then still appear, but nothing
 * it speaks of was released.
 */
export type Journal = {
  /**
   * Writes a record, unless `stillTrue` answers false when its turn arrives: then it returns false and writes
   * nothing. Each change either took effect before it is asked or takes effect after the record.
   */
  record(entry: AuditEntry, stillTrue?: () => boolean): Promise<boolean>;
  /**
   * Runs `apply` and writes its record, numbered `seq`, in one transaction, which the token has noted when
   * this resolves. When `apply` throws, nothing happened, and its error is passed on.
   */
  change<T>(apply: (client: pg.Client, seq: number) => Promise<Change<T>>): Promise<T>;
  /** The last record known to be durable. */
  head(): Head;
  /**
   * Proves that records can be written, reconnecting if needed. Rejects with `VaultError audit_unavailable`.
   */
  probe(): Promise<void>;
  /** Waits for what was given so far, then lets go of the database. */
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
 * What the journal needs. It keeps `register` at the chain's end. `reopened` is called whenever it
 * reconnects: until then, others may have changed what was read before.
 */
export type JournalParts = {
  databaseUrl: string;
  token: Token;
  clock: Clock;
  log: Logger;
  register: Register;
  /** Heads at which the register's parts were taken; the chain must lead to all of them. */
  taken?: readonly Head[];
  reopened(): void;
};

/**
 * Opens the chain, and verifies it behind the register's head. Rejects with `LedgerHeld` when another process
 * writes it, `LedgerMismatch` when a record is not what this token chained, or the database's error.
 * Afterwards a lost connection is opened again by the next call.
 */
export async function openJournal({
  databaseUrl,
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
    const opened = await openLedger(databaseUrl, (client) => catchUp(client, token, register, taken));
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
   * After any failed statement the connection's state, and what it wrote, are in doubt: the next batch starts
   * from a fresh one. What awaits its transaction does so no more, also where the connection had ended
   * before.
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
    probe: () => journal.change(async (client) => ({ value: void (await client.query("select 1")) })),
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

/**
 * Writes a refusal down before it is answered, so that no attempt goes unseen. Rejects as {@link
 * Journal.record} does.
 */
export async function recordRefusal(
  journal: Pick<Journal, "record">,
  entry: Omit<AuditEntry, "outcome">,
  refusal: Refusal,
): Promise<Refusal> {
  await journal.record({ ...entry, outcome: refusal.refused });
  return refusal;
}
