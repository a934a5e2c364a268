import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import type { ApiClient, StateReader } from "./api_client.ts";
import type { AnyObject } from "./kinds.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import type { Resources } from "./resources.ts";
import type { Tracing } from "./tracing.ts";

/** What the reconcilers read and act on. */
export type OperatorContext = {
  resources: Resources;
  api: ApiClient;
  states: StateReader;
  clock: Clock;
  log: Logger;
  metrics: OperatorMetrics;
  tracing: Tracing;
  /** Base URL of the API that applications are given to call. */
  apiUrl: string;
  /** Base URL of the console that people are sent to. */
  consoleUrl: string;
  /** Under which id the API knows an object. */
  externalIdOf(object: AnyObject): string;
};

/** External ids are `<cluster>.<uid>`: never used twice, and never read back from a status. */
export function externalIds(clusterId: string): OperatorContext["externalIdOf"] {
  return ({ metadata }) => `${clusterId}.${metadata.uid}`;
}

/** An operator that runs. */
export type Operator = {
  /** The id under which the API knows the folder or the cluster; `undefined` until it is known. */
  clusterId(): string | undefined;
  /** The objects as the operator sees them. */
  resources: Resources;
  /**
   * In a cluster, whether every object has been read; over a folder, whether each has been looked at once, so
   * that no status is from before the start.
   */
  isReady(): Promise<boolean>;
  /** Whether it works, or at least can be expected to: a restart would not help. */
  isAlive(): boolean;
  /** Whether this process leads. */
  isLeading(): boolean;
  /** Ends in order: what is under way is finished first. */
  stop(): Promise<void>;
};
