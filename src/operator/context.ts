import type { ComparedClock } from "../clock.ts";
import type { Logger } from "../log.ts";
import type { ApiClient, StateReader } from "./api_client.ts";
import type { AnyObject } from "./kinds.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import type { Resources } from "./resources.ts";
import type { Tracing } from "./tracing.ts";

/** Everything that the reconcilers read and modify. */
export type OperatorContext = {
  resources: Resources;
  api: ApiClient;
  states: StateReader;
  clock: ComparedClock;
  log: Logger;
  metrics: OperatorMetrics;
  tracing: Tracing;
  /** Base URL of the API that the operator writes into Secrets for applications. */
  apiUrl: string;
  /** Base URL of the console, for links in messages. */
  consoleUrl: string;
  /** Returns the id under which the API knows an object. */
  externalIdOf(object: AnyObject): string;
};

/**
 * Returns a function that computes external ids, `<cluster>.<uid>`, which are never reused. The operator does
 * not trust external ids in a status, because others could have changed the status.
 */
export function externalIds(clusterId: string): OperatorContext["externalIdOf"] {
  return ({ metadata }) => `${clusterId}.${metadata.uid}`;
}

/** A running operator. */
export type Operator = {
  /** Returns the API's id of the folder or cluster; `undefined` until the id is known. */
  clusterId(): string | undefined;
  resources: Resources;
  /** Returns whether all objects have been read (in a cluster) or reconciled once (over a folder). */
  isReady(): Promise<boolean>;
  /** Returns false only if the process cannot recover unless it is restarted. */
  isAlive(): boolean;
  isLeading(): boolean;
  /** Finishes the work in progress, then stops. */
  stop(): Promise<void>;
};
