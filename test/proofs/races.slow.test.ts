import { expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "../../src/proofs/decision.ts";
import { startReplicas } from "../support/replicas.ts";
import { type Replicas, raceForCredit, raceRevocations } from "./races.ts";

const ROUNDS = Number(process.env.ROUNDS ?? 10_000);
/** As many as an account of its own pays for; decisions under way cost something in every round. */
const ROUNDS_PER_ACCOUNT = 1_000;
const TIMEOUT_MS = 2 * 3_600_000;

async function onReplicas(alphaCredits: number, work: (apis: Replicas) => Promise<void>): Promise<void> {
  const apis = await startReplicas({ alphaCredits });
  try {
    await work(apis);
  } finally {
    await apis[1].stop();
    await apis[0].stop();
  }
}

test(`in ${ROUNDS} rounds no allow comes once a revocation has answered`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const raced = new Map<string, number>();
  await onReplicas(4 * ROUNDS_PER_ACCOUNT * PRICE, async (apis) => {
    for (let done = 0; done < ROUNDS; done += ROUNDS_PER_ACCOUNT) {
      const seen = await raceRevocations(apis, Math.min(ROUNDS_PER_ACCOUNT, ROUNDS - done));
      for (const [word, count] of seen) raced.set(word, (raced.get(word) ?? 0) + count);
    }
  });
  console.log(Object.fromEntries(raced));
  expect(raced.size, "decisions under way are allowed in some rounds and denied in others").toBe(2);
});

test("5,000 verifications of 64 clients with credit for 1,000: exactly 1,000 are charged", {
  timeout: TIMEOUT_MS,
}, async () => {
  await onReplicas(1_000 * PRICE, (apis) => raceForCredit(apis, { tries: 5_000, affordable: 1_000 }));
});
