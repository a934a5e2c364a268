import type { ChallengeStore } from "../../src/protocol/verification/verify_bundle.ts";

/** Creates an in-memory challenge store with these open challenges. `log` contains its calls. */
export function memoryStore(...challenges: string[]): ChallengeStore & { log: string[] } {
  const open = new Set(challenges);
  const log: string[] = [];
  return {
    log,
    isKnown: (challenge) => {
      log.push("isKnown");
      return Promise.resolve(open.has(challenge));
    },
    spend: (challenge) => {
      log.push("spend");
      return open.delete(challenge);
    },
  };
}
