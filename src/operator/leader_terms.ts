import type { Clock } from "../clock.ts";
import { type Backoff, backoff } from "../concurrency/backoff.ts";
import type { OperatorConfig } from "../config.ts";
import { pause } from "../kubernetes/pause.ts";
import type { Logger } from "../log.ts";
import { type ApiTime, createApiClient, createStateReader } from "./api_client.ts";
import { externalIds, type OperatorContext } from "./context.ts";
import { startController } from "./controller.ts";
import type { OperatorMetrics } from "./operator_metrics.ts";
import { type EndedOptions, type SweepOptions, startEndedRemoval, startSweeper } from "./sweeper.ts";

/** The leadership that this process holds. */
export type Lead = {
  lost: AbortSignal;
  /** Returns whether this process certainly leads. Returns false as soon as another process may be leader. */
  isHeld(): boolean;
  /** Lets another process lead immediately. Never rejects. */
  release(): Promise<void>;
};

/** Ensures that only one process leads at a time. */
export type Elector = {
  /** Resolves when this process becomes leader, or to `undefined` if `signal` aborts first. Never rejects. */
  acquire(signal: AbortSignal): Promise<Lead | undefined>;
};

/** The elector for an operator with a single process, which always leads. */
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
> & { time: ApiTime };
/** The API that a leader calls, the objects that it reconciles, and its regular tasks. */
export type TermOptions = {
  access: ApiAccess;
  world: Omit<OperatorContext, "api" | "states">;
  /** Called when the API has accepted the leader and its cluster id, before any other call of the leader. */
  onAccepted?: (() => Promise<void>) | undefined;
  /** How to find delegations whose object disappeared unnoticed. Absent for a folder. */
  sweeps?: SweepOptions | undefined;
  /** When the leader deletes Delegations that have ended. If absent, it never deletes them. */
  ended?: EndedOptions | undefined;
};

/** Returns the options of a leader's term from the operator's settings. */
export function termOptions(
  config: OperatorConfig,
  {
    clusterId,
    holder,
    apiTime,
    ...world
  }: Pick<TermOptions["world"], "resources" | "log" | "metrics" | "tracing"> & {
    clusterId: string;
    holder: string;
    apiTime: ApiTime;
  },
): TermOptions {
  return {
    access: {
      baseUrl: config.OPERATOR_API_URL,
      token: config.OPERATOR_TOKEN,
      tokenFile: config.OPERATOR_TOKEN_FILE,
      clusterId,
      holder,
      time: apiTime,
    },
    world: {
      ...world,
      clock: apiTime.clock,
      apiUrl: config.API_URL.replace(/\/$/, ""),
      consoleUrl: config.CONSOLE_URL,
      externalIdOf: externalIds(clusterId),
    },
  };
}

/** Starts to reconcile as a new leader. The API refuses late calls of the former leader by their epoch. */
export function startTerm({ access, world, onAccepted, sweeps, ended }: TermOptions, lead: Lead): Term {
  const superseded = Promise.withResolvers<void>();
  const { time, ...place } = access;
  const client = createApiClient({
    ...place,
    clock: world.clock,
    onAccepted,
    onSuperseded: superseded.resolve,
    onAnswer: world.metrics.apiAnswered,
    traceparent: world.tracing.traceparent,
  });
  const api = time.taking(client);
  world.metrics.leads(world.resources);
  // Without objects, the leader would make its first call, which lets it record the cluster id, much later.
  if (onAccepted !== undefined) void api.leadership();
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

type Term = {
  /** Resolves when every object has been reconciled once. */
  firstPass: Promise<void>;
  /** Resolves when a newer leader has claimed an epoch from the API. */
  superseded: Promise<void>;
  /** Resolves when the work in progress has finished. Never rejects. */
  stop(): Promise<void>;
};

/** An event about a change of leadership. */
export type LeadershipEvent = { type: "Normal" | "Warning"; reason: string; message: string };

/** This process's participation in elections while it runs. */
export type Leadership = {
  isLeading(): boolean;
  /** Returns whether this process has reconciled every object at least once, in any of its terms. */
  hasReconciledAll(): boolean;
  stop(): Promise<void>;
};

type Options = {
  elector: Elector;
  begin(lead: Lead): Term;
  /** Called when this process becomes leader or loses the leadership. */
  announce(event: LeadershipEvent): void;
  metrics: Pick<OperatorMetrics, "leadLost">;
  clock: Clock;
  log: Logger;
  /** For tests: backoff in milliseconds before a superseded process runs for leader again. */
  retryMs?: Backoff;
};

/**
 * Two operators may supersede each other forever, for example those of a cluster and of its clone. The
 * backoff makes this less and less frequent.
 */
const RETRY_MS: Backoff = { base: 1000, cap: 5 * 60_000 };
/** A leader this old is stable, so the backoff starts over. */
const STABLE_MS = 10 * 60_000;

/** Runs for leader, works while it leads, and then runs again. Terms never overlap. */
export function startLeadership(options: Options): Leadership {
  const { elector, begin, announce, metrics, clock, log, retryMs = RETRY_MS } = options;
  const stopping = new AbortController();
  let leading = false;
  let reconciledAll = false;
  let superseded = 0;

  async function serve(lead: Lead): Promise<void> {
    const begun = clock.now().getTime();
    const term = begin(lead);
    leading = true;
    void term.firstPass.then(() => {
      reconciledAll = true;
    });
    log.info("this operator leads");
    announce({ type: "Normal", reason: "Leading", message: "This operator leads" });
    const cause = await endOf(lead, term);
    leading = false;
    if (cause !== "stopped") reportLoss(cause);
    if (cause !== "stopped") metrics.leadLost(cause);
    await term.stop();
    await lead.release();
    if (clock.now().getTime() - begun >= STABLE_MS) superseded = 0;
    if (cause !== "superseded") return;
    superseded += 1;
    await pause(backoff(retryMs, superseded), stopping.signal);
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

  function reportLoss(cause: "lost" | "superseded"): void {
    const message =
      cause === "lost"
        ? "This operator no longer holds the lease: it stops its work and runs for leader again"
        : "The API knows a newer leader of this cluster: this operator stops its work and runs for leader again";
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
    hasReconciledAll: () => reconciledAll,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
