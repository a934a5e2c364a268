import { inTime } from "../clock.ts";
import type { ReadSettings, Settings } from "./settings.ts";

/** The result of a check. `skipped` means that the check did not decide; its detail says why. */
export type Finding = {
  status: "ok" | "failed" | "skipped";
  /** The observation, without secrets. May have several lines. */
  detail: string;
  /** The action for an administrator, or `null`. */
  action: string | null;
};

/** A finding with the name of its check, as one row of the table. */
export type Row = { name: string } & Finding;

/** `now` reads the time. `signal` aborts when the check's time is over. */
export type CheckContext = { now: () => Date; signal: AbortSignal };

/**
 * One check. It runs if the settings in `needs` are present and valid, and is skipped otherwise. After
 * `signal` aborts, its result no longer counts.
 */
export type Check = {
  name: string;
  needs: readonly string[];
  run(settings: Settings, context: CheckContext): Promise<Finding>;
};

/** Declares a check. Inside `run`, the settings in `needs` are present. */
export function check<K extends keyof Settings>(
  name: string,
  needs: readonly K[],
  run: (
    settings: Settings & { [N in K]-?: NonNullable<Settings[N]> },
    context: CheckContext,
  ) => Promise<Finding>,
): Check {
  return { name, needs, run: run as Check["run"] };
}

/** Returns the finding that nothing is wrong. */
export function ok(detail: string): Finding {
  return { status: "ok", detail, action: null };
}

/** Returns the finding that something is wrong. `action` says what to do. */
export function failed(detail: string, action: string): Finding {
  return { status: "failed", detail, action };
}

/** Returns the finding that nothing was decided. `detail` says why. `action` says where to decide it. */
export function skipped(detail: string, action: string | null = null): Finding {
  return { status: "skipped", detail, action };
}

/** Thrown by a check whose precondition another check already reports. The check is then skipped. */
export class NotChecked extends Error {}

/** Milliseconds for one check. All checks run at the same time, so this also limits the whole command. */
const CHECK_MS = 8_000;

/**
 * Runs all checks at the same time and returns their rows in the given order. Never rejects. A check that
 * does not end in time fails.
 */
export function runChecks(
  checks: readonly Check[],
  { values, wrong }: ReadSettings,
  { now, checkMs = CHECK_MS }: { now: () => Date; checkMs?: number },
): Promise<Row[]> {
  return Promise.all(
    checks.map(async ({ name, needs, run }): Promise<Row> => {
      const missing = needs.filter((need) => values[need as keyof Settings] === undefined);
      if (missing.length > 0) {
        return { name, ...skipped(missing.map((need) => whyMissing(need, wrong)).join(", ")) };
      }
      const over = new AbortController();
      const late = () => new Late(`no result after ${checkMs / 1000} s`);
      try {
        return { name, ...(await inTime(checkMs, run(values, { now, signal: over.signal }), late)) };
      } catch (error) {
        return { name, ...findingOf(error) };
      } finally {
        over.abort();
      }
    }),
  );
}

class Late extends Error {}

function whyMissing(name: string, wrong: ReadonlySet<string>): string {
  return wrong.has(name) ? `${name} is wrong` : `${name} is not set`;
}

/** Never quotes an unexpected error's message, which may contain a secret. */
function findingOf(error: unknown): Finding {
  if (error instanceof NotChecked) return skipped(error.message);
  if (error instanceof Late) {
    return failed(
      error.message,
      "Find out which connection hangs: a firewall that drops packets, or a server.",
    );
  }
  const { name, code } = error as { name?: unknown; code?: unknown };
  return failed(
    `the check ended with ${typeof code === "string" ? code : String(name)}`,
    "Run the role with LOG_LEVEL=debug, and look for this error in its log.",
  );
}
