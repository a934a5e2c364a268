import type { Logger } from "../log.ts";
import { type PinFlag, PinWithheld, WrongPin } from "./messages.ts";

/** Results of an attempt to open the token. `withheld`: the vault did not try a PIN. `failed`: no token. */
export const LOGIN_OUTCOMES = ["accepted", "refused", "withheld", "failed"] as const;
export type LoginOutcome = (typeof LOGIN_OUTCOMES)[number];

/** Keeps and logs what the token last reported about its PIN, and counts attempts to open it. */
export type PinReport = {
  /** Returns what the token reported last, or `undefined` if it has not reported yet. */
  flags(): readonly PinFlag[] | undefined;
  /** Takes what the token reports. Logs a change. */
  take(flags: readonly PinFlag[]): void;
  accepted(flags: readonly PinFlag[]): void;
  /** Takes the error of an attempt that failed. */
  failed(error: unknown): void;
};

/** Returns the report of one token. `count` counts attempts. */
export function createPinReport(log: Logger, count: (outcome: LoginOutcome) => void): PinReport {
  let current: readonly PinFlag[] | undefined;

  function take(flags: readonly PinFlag[]): void {
    if (flags.join() !== (current ?? []).join()) log.warn({ event: "pin_flags", flags });
    current = flags;
  }

  return {
    flags: () => current,
    take,
    accepted(flags) {
      count("accepted");
      take(flags);
    },
    failed(error) {
      if (error instanceof PinWithheld) {
        const { hold, tried, pin } = error.details;
        count(tried ? "refused" : "withheld");
        log.error({ event: tried ? "pin_refused" : "pin_withheld", hold, reason: error.message });
        take(pin);
      } else if (error instanceof WrongPin) {
        count("refused");
        take(error.pin);
      } else {
        count("failed");
      }
    },
  };
}
