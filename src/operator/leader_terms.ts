import type { Clock } from "../clock.ts";
import { type Backoff, backoff } from "../concurrency/backoff.ts";
import type { OperatorConfig } from "../config.ts";
import { pause } from "../kubernetes/pause.ts";
import type { Logger } from "../log.ts";
import { createApiClient, createStateReader } from "./api_client.ts";
import { externalIds, type OperatorContext } from "./context.ts";
import { startController } from "./controller.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import { type EndedOptions, type SweepOptions, startEndedRemoval, startSweeper } from "./sweeper.ts";

/** The lead that a process holds. */
export type Lead = {
  /** Ends when the lead is lost. */
  lost: AbortSignal;
  /** Whether it is certainly held now. It says no as soon as another process may have taken it. */
  isHeld(): boolean;
  /** Gives it up, so that another process may lead immediately. Never rejects. */
  release(): Promise<void>;
};

/** Has one process lead at a time. */
export type Elector = {
  /** Waits until this process leads. `undefined`: `signal` ended before. Never rejects. */
  acquire(signal: AbortSignal): Promise<Lead | undefined>;
};

/** Where there is one process only: it leads. */
export const soleElector: Elector = {
  async acquire(signal) {
    if (signal.aborted) return undefined;
    return {
      lost: new AbortController().signal,
      isHeld: () => true,
      release: async () => undefined,
    };
  },
};

type ApiAccess = Pick<
  Parameters<typeof createApiClient>[0],
  "baseUrl" | "token" | "tokenFile" | "clusterId" | "holder"
>;
/** Whom a leader calls and what it reconciles. */
export type TermOptions = {
  access: ApiAccess;
  world: Omit<OperatorContext, "api" | "states">;
  /** Where there are objects that can go unseen: how what they left is found. */
  sweeps?: SweepOptions | undefined;
  /** Where ended Delegations are deleted after a time. */
  ended?: EndedOptions | undefined;
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

/**
 * Begins to reconcile as a new leader. Whatever a former term still sends carries that term's epoch, and is
 * refused.
 */
export function startTerm({ access, world, sweeps, ended }: TermOptions, lead: Lead): Term {
  const superseded = Promise.withResolvers<void>();
  const api = createApiClient({
    ...access,
    clock: world.clock,
    onSuperseded: superseded.resolve,
    onAnswer: world.metrics.apiAnswered,
    traceparent: world.tracing.traceparent,
  });
  world.metrics.leads(world.resources);
  const controller = startController({ ...world, api, states: createStateReader(api) }, lead);
  const sweeper = sweeps && startSweeper({ ...world, api }, lead.isHeld, sweeps);
  const removal = ended && startEndedRemoval(world, lead.isHeld, ended);
  return {
    superseded: superseded.promise,
    firstPass: controller.firstPass,
    async stop() {
      world.metrics.leads(undefined);
      await Promise.all([controller.stop(), sweeper?.stop(), removal?.stop()]);
      await api.close();
    },
  };
}

/** The work of a process while it leads. */
type Term = {
  /** Resolves when everything has been looked at once. */
  firstPass: Promise<void>;
  /** Resolves when the API has given a newer leader its epoch. */
  superseded: Promise<void>;
  /** Ends the work and resolves when what is under way has ended. Never rejects. */
  stop(): Promise<void>;
};

/** Something that happened to the leadership, for people. */
export type LeadershipEvent = { type: "Normal" | "Warning"; reason: string; message: string };

/** Whether this process leads, for as long as it runs. */
export type Leadership = {
  isLeading(): boolean;
  /** Whether this process has looked at everything once, in its first term or a later one. */
  hasLooked(): boolean;
  stop(): Promise<void>;
};

type Options = {
  elector: Elector;
  /** Begins the work of a leader. */
  begin(lead: Lead): Term;
  /** Told when this process begins or ceases to lead. */
  announce(event: LeadershipEvent): void;
  metrics: Pick<OperatorMetrics, "leadLost">;
  clock: Clock;
  log: Logger;
  /** For tests: milliseconds before it stands again after it was superseded, at first and at most. */
  standAgainMs?: Backoff;
};

/** Two operators that supersede each other, as those of a cluster and its clone, do so ever more rarely. */
const STAND_AGAIN_MS: Backoff = { base: 1000, cap: 5 * 60_000 };
/** A leader this old is stable, so the back-off starts over. */
const SETTLED_MS = 10 * 60_000;

/**
 * Stands for election, works while it leads, and stands again whenever it has lost the lead. Work of a former
 * term has ended before the next one begins.
 */
export function startLeadership(options: Options): Leadership {
  const { elector, begin, announce, metrics, clock, log, standAgainMs = STAND_AGAIN_MS } = options;
  const stopping = new AbortController();
  let leading = false;
  let looked = false;
  let superseded = 0;

  async function serve(lead: Lead): Promise<void> {
    const begun = clock.now().getTime();
    const term = begin(lead);
    leading = true;
    void term.firstPass.then(() => {
      looked = true;
    });
    log.info("this operator leads");
    announce({ type: "Normal", reason: "Leading", message: "This operator leads" });
    const cause = await endOf(lead, term);
    leading = false;
    if (cause !== "stopped") tellLoss(cause);
    if (cause !== "stopped") metrics.leadLost(cause);
    await term.stop();
    await lead.release();
    if (clock.now().getTime() - begun >= SETTLED_MS) superseded = 0;
    if (cause !== "superseded") return;
    superseded += 1;
    await pause(backoff(standAgainMs, superseded), stopping.signal);
  }

  function endOf({ lost }: Lead, { superseded }: Term): Promise<"stopped" | "lost" | "superseded"> {
    const { promise, resolve } = Promise.withResolvers<"stopped" | "lost" | "superseded">();
    stopping.signal.addEventListener("abort", () => resolve("stopped"), { once: true });
    lost.addEventListener("abort", () => resolve("lost"), { once: true });
    if (stopping.signal.aborted) resolve("stopped");
    if (lost.aborted) resolve("lost");
    void superseded.then(() => resolve("superseded"));
    return promise;
  }

  function tellLoss(cause: "lost" | "superseded"): void {
    const message =
      cause === "lost"
        ? "This operator no longer holds the lease: it stops its work and stands again"
        : "The API knows a newer leader of this cluster: this operator stops its work and stands again";
    log.warn(message);
    announce({ type: "Warning", reason: cause === "lost" ? "LeaseLost" : "Superseded", message });
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const lead = await elector.acquire(stopping.signal);
      if (lead !== undefined) await serve(lead);
    }
  }

  const running = run();
  return {
    isLeading: () => leading,
    hasLooked: () => looked,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
