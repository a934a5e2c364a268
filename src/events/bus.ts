import type { Transaction } from "../db/database.ts";

/** An event on its way from the outbox to its consumers. It carries no secret. */
export type BusEvent = {
  eventId: string;
  type: string;
  /**
   * What it happened to: `connection` or `account`, and its id. Events of one aggregate arrive in the order
   * of `aggregateSeq`.
   */
  aggregateType: string;
  aggregateId: string;
  aggregateSeq: number;
  schemaVersion: number;
  /** JSON text: `{"event": type, …fields}`. */
  payload: string;
  headers: Record<string, string>;
  createdAt: Date;
};

/**
 * A reader of the bus. `handle` works in the transaction that also marks the events as handled, so each event
 * has its effect once, however often the bus brings it. No network call in it. `handled` is called after the
 * commit.
 */
export type Consumer = {
  /** Unique and lasting: the inbox remembers events by it. */
  name: string;
  /** What it reads the events of. Absent: of everything. */
  aggregateType?: string;
  handle(tx: Transaction, events: BusEvent[]): Promise<void>;
  handled?(): void;
};

/**
 * Carries events to consumers at least once. `publish` resolves when every event is safe: it will reach every
 * consumer even if all processes end immediately. It rejects when that is not certain; then the events are
 * published again.
 */
export type Bus = {
  publish(events: BusEvent[]): Promise<void>;
  subscribe(consumer: Consumer): Promise<void>;
  health(): Promise<{ ok: boolean; detail?: string }>;
  /** Waits for what is under way, then stops. */
  close(): Promise<void>;
};
