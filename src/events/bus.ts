import type { Transaction } from "../db/database.ts";

/** An event on its way from the outbox to its consumers. It contains no secret. */
export type BusEvent = {
  eventId: string;
  type: string;
  /**
   * The aggregate that the event belongs to: a `connection` or an `account`, and its id. A consumer receives
   * the events of one aggregate in the order of `aggregateSeq`.
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
 * A reader of the bus. `handle` runs in the transaction that marks the events as handled. Each event
 * therefore takes effect once, even if the bus delivers it several times. `handle` must make no network call.
 * The bus calls `handled` after the commit.
 */
export type Consumer = {
  /** Unique and permanent, because the inbox records handled events under this name. */
  name: string;
  /** Limits the consumer to events of this aggregate type. If absent, the consumer reads every event. */
  aggregateType?: string;
  handle(tx: Transaction, events: BusEvent[]): Promise<void>;
  handled?(): void;
};

/**
 * Carries events to consumers at least once. `publish` resolves when every event is safe: each consumer will
 * receive it even if all processes die immediately afterwards. `publish` rejects if that is not certain, and
 * the relay then publishes the events again.
 */
export type Bus = {
  publish(events: BusEvent[]): Promise<void>;
  subscribe(consumer: Consumer): Promise<void>;
  health(): Promise<{ ok: boolean; detail?: string }>;
  /** Waits until the work in progress ends, then stops. */
  close(): Promise<void>;
};
