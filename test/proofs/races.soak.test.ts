import { expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "../../src/accounts/ledger/amounts.ts";
import { startReplicas } from "../support/api.ts";
import { type Replicas, raceForCredit, raceRevocations } from "./races.ts";

const ROUNDS = Number(process.env.RACE_ROUNDS ?? 10_000);
/** Each account has credit for all its rounds, because a decision in progress also needs credit. */
const ACCOUNTS = 8;
const ROUNDS_PER_ACCOUNT = Math.ceil(ROUNDS / ACCOUNTS);
const TIMEOUT_MS = 2 * 3_600_000;

async function onReplicas(alphaCredits: number, work: (apis: Replicas) => Promise<void>): Promise<void> {
  const apis = await startReplicas({ config: { ALPHA_CREDITS_MICRO_USD: alphaCredits } });
  try {
    await work(apis);
  } finally {
    await apis[1].stop();
    await apis[0].stop();
  }
}

test(`under load, no decision allows after the API has answered a revocation, in ${ROUNDS} rounds`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const raced = new Map<string, number>();
  await onReplicas(4 * ROUNDS_PER_ACCOUNT * PRICE, async (apis) => {
    const accounts = Array.from({ length: ACCOUNTS }, () => raceRevocations(apis, ROUNDS_PER_ACCOUNT));
    for (const [word, count] of (await Promise.all(accounts)).flatMap((seen) => [...seen])) {
      raced.set(word, (raced.get(word) ?? 0) + count);
    }
  });
  console.log(Object.fromEntries(raced));
  expect(raced.size, "concurrent decisions are allowed in some rounds and denied in others").toBe(2);
});

test("5,000 verifications by 64 clients with credit for 1,000 cause exactly 1,000 charges", {
  timeout: TIMEOUT_MS,
}, async () => {
  await onReplicas(1_000 * PRICE, (apis) => raceForCredit(apis, { tries: 5_000, affordable: 1_000 }));
});
