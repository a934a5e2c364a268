import type { Clock } from "../../clock.ts";
import { describeFault, type Fault } from "../../describe_fault.ts";
import type { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { createPacedLines } from "../../rates/paced_lines.ts";

/** Logs why calls had no answer of their own. */
export type LogFault = (
  call: { requestId: string; route: string },
  refusal: ApiError,
  error: unknown,
) => void;

type FaultLogDeps = { log: Logger; clock: Clock };

/**
 * Each fault of ours is logged. Of calls that were refused because a part is away there may be any number, so
 * no more than 60 a minute of a route and kind are logged; the next line says how many were left out.
 */
export function createFaultLog({ log, clock }: FaultLogDeps): LogFault {
  const paced = createPacedLines("warn", { log, clock });
  return ({ requestId, route }, refusal, error) => {
    const fault = describeFault(error);
    const line = { request_id: requestId, route, fault };
    if (refusal.code === "internal") {
      log.error(line, refusal.message);
    } else {
      paced(`${route} ${kindOf(fault)}`, line, refusal.message);
    }
  };
}

/**
 * Logs that answers broke off, for which a caller need only hang up: of a kind no more than 60 a minute,
 * likewise.
 */
export function createBreakLog(deps: FaultLogDeps): (error: unknown) => void {
  const paced = createPacedLines("warn", deps);
  return (error) => {
    const fault = describeFault(error);
    paced(kindOf(fault), { fault }, "a response broke off");
  };
}

function kindOf({ code, type }: Fault): string {
  return code ?? type;
}
