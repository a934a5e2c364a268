import type { Clock } from "../clock.ts";
import type { ApiError } from "../errors.ts";
import { describeFault } from "../fault.ts";
import type { Logger } from "../log.ts";
import { createPace } from "../pace.ts";

/** Lines a minute for one route and kind of fault. */
const PER_MINUTE = 60;

/** Logs why calls had no answer of their own. */
export type LogFault = (
  call: { requestId: string; route: string },
  refusal: ApiError,
  error: unknown,
) => void;

/**
 * Each fault of ours is logged. Of calls that were refused because a part is away there are as many as come, so no more than 60
 * a minute of a route and kind are; the next line says how many were left out.
 */
export function createFaultLog({ log, clock }: { log: Logger; clock: Clock }): LogFault {
  const pace = createPace({ perMinute: PER_MINUTE, clock });
  const leftOut = new Map<string, number>();
  return ({ requestId, route }, refusal, error) => {
    const fault = describeFault(error);
    const line = { request_id: requestId, route, fault };
    if (refusal.code === "internal") {
      log.error(line, refusal.message);
      return;
    }
    const kind = `${route} ${fault.code ?? fault.type}`;
    const before = leftOut.get(kind) ?? 0;
    if (!pace.take(kind).admitted) {
      leftOut.set(kind, before + 1);
      return;
    }
    leftOut.delete(kind);
    log.warn(before === 0 ? line : { ...line, left_out: before }, refusal.message);
  };
}
