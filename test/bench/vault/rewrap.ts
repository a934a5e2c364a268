import { setTimeout as sleep } from "node:timers/promises";
import type { BenchVault } from "./place.ts";

const LOOK_MS = 50;

type Status = { kek: { running: boolean; done: number; remaining: number; fault: string | null } };

/** Creates a new key-encryption key and rewraps every data key with it. */
export async function rewrapAll({ admin }: BenchVault): Promise<{ keys: number; seconds: number }> {
  const post = (path: string) => admin.call({ method: "POST", path, body: {} });
  await post("/v1/kek/rotate");
  const start = performance.now();
  await post("/v1/kek/rewrap");
  for (;;) {
    const { kek } = await admin.call<Status>({ method: "GET", path: "/v1/status" });
    if (kek.fault !== null) throw new Error(`Rewrapping ended with ${kek.fault}`);
    if (!kek.running && kek.remaining === 0) {
      return { keys: kek.done, seconds: (performance.now() - start) / 1000 };
    }
    await sleep(LOOK_MS);
  }
}
