import type { Transaction } from "../db/database.ts";

/** An event on its way from the outbox to its consumers. It contains no secret. */
export type BusEvent = {
  eventId: string;
  type: string;
  /**
   * A `connection`, `customer_connection` or `account`. A consumer receives its events in the order of
   * `aggregateSeq`.
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
 * A reader of the bus. `handle` must make no network call. It runs in the transaction that marks the events
 * as handled, so each event takes effect once. `handled` runs after the commit.
 */
export type Consumer = {
  /** Unique and permanent, because the inbox records handled events under this name. */
  name: string;
  /** Limits the consumer to events of these aggregate types. If absent, the consumer reads every event. */
  aggregateTypes?: readonly string[];
  handle(tx: Transaction, events: BusEvent[]): Promise<void>;
  handled?(): void;
};

/**
 * Carries events to consumers at least once. When `publish` resolves, each consumer will receive the events
 * even if all processes die. If that is not certain, `publish` rejects.
 */
export type Bus = {
  publish(events: BusEvent[]): Promise<void>;
  subscribe(consumer: Consumer): Promise<void>;
  health(): Promise<{ ok: boolean; detail?: string }>;
  /** Stops after the work in progress. */
  close(): Promise<void>;
};
