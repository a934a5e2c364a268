import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";
import type { ApiClient } from "./api_client.ts";
import type { AnyObject } from "./kinds.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import type { StateReader } from "./poll.ts";
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
