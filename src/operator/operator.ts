import type { OperatorConfig } from "../config.ts";
import { externalIds } from "./context.ts";
import type { TermOptions } from "./leadership/term.ts";
import type { Resources } from "./resources.ts";

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

/** What a leader works with, by the settings. */
export function termOptions(
  config: OperatorConfig,
  {
    clusterId,
    holder,
    ...world
  }: Pick<TermOptions["world"], "resources" | "clock" | "log" | "metrics" | "tracing"> & {
    clusterId: string;
    holder: string;
  },
): TermOptions {
  return {
    access: {
      baseUrl: config.OPERATOR_API_URL,
      token: config.OPERATOR_TOKEN,
      tokenFile: config.OPERATOR_TOKEN_FILE,
      clusterId,
      holder,
    },
    world: {
      ...world,
      apiUrl: config.API_URL.replace(/\/$/, ""),
      consoleUrl: config.CONSOLE_URL,
      externalIdOf: externalIds(clusterId),
    },
  };
}
