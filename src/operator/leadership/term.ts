import { createApiClient } from "../api/client.ts";
import type { OperatorContext } from "../context.ts";
import { startController } from "../controller.ts";
import { createStateReader } from "../polling/state_reader.ts";
import { type EndedOptions, startEndedRemoval } from "../sweeper/ended.ts";
import { type SweepOptions, startSweeper } from "../sweeper/sweeper.ts";
import type { Lead } from "./elector.ts";
import type { Term } from "./leadership.ts";

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
