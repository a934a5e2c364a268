import type { Logger } from "../log.ts";
import type { Token } from "../token/client.ts";
import type { Head } from "./ledger.ts";

/** Notes the chain's head in the token. */
export type HeadNoting = {
  /** Notes it now. Rejects with `VaultError token_unavailable` or `sealed`. */
  note(): Promise<void>;
  /** Notes it once more, and no more by itself. Never rejects. */
  stop(): Promise<void>;
};

const EVERY_MS = 1_000;

/**
 * Notes the head whenever it moved within the last second, and when it is asked to: what is noted the
 * database's owner cannot cut off or set back without being found out at the next start.
 */
export function createHeadNoting(
  head: () => Head,
  token: Pick<Token, "noteHead">,
  log: Logger,
  everyMs = EVERY_MS,
): HeadNoting {
  let noted = 0;

  async function note(): Promise<void> {
    const { seq, mac } = head();
    if (seq === noted) return;
    await token.noteHead({ seq, mac });
    noted = Math.max(noted, seq);
  }

  async function noteOrTell(): Promise<void> {
    try {
      await note();
    } catch (error) {
      log.warn({ event: "audit_head_not_noted", reason: error instanceof Error ? error.message : "unknown" });
    }
  }

  let running: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(noteOrTell);
  }, everyMs).unref();
  return {
    note,
    async stop() {
      clearInterval(timer);
      await running;
      await noteOrTell();
    },
  };
}
