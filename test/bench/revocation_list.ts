import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { startPostgres } from "../../src/dev/postgres.ts";
import { firstThreadTime } from "./processor_time.ts";
import type { ListOrder } from "./vault/list_signer.ts";
import { startBenchVault } from "./vault/place.ts";
import { percentiles } from "./vault/timing.ts";

/**
 * What long revocation lists cost in the vault, and those who sign beside them: the time from call to answer, how long its event loop works
 * for one of them in all, which bounds how long it stands still whatever else uses the machine, and how long signatures of challenges
 * take meanwhile, one after another.
 * `node test/bench/revocation_list.ts`.
 */
const LENGTHS = [0, 1_000, 10_000, 50_000];
const ROUNDS = 30;
const WARM_UP = 300;
const ALONE_MS = 3_000;
const SIGNER = new URL("./vault/list_signer.ts", import.meta.url);

const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
const vault = await startBenchVault(postgres, dir, "lists");
try {
  const tenant = "acc-bench";
  const { url, client, config } = vault;
  const { key_id: keyId } = await client.createKey(
    { tenant, purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "bench-agent",
  );
  const agent = { tenant, keyId };
  const challenge = Buffer.alloc(32, 1).toString("base64");
  const sign = () => client.signChallenge(agent, { challenge, challenge_at: Math.floor(Date.now() / 1000) });
  for (let round = 0; round < WARM_UP; round += 1) await sign();
  report("challenges alone", (await beside(sign, () => sleep(ALONE_MS))).waits);
  for (const length of LENGTHS) {
    const order = { url, tlsDir: config.tlsDir, length, rounds: ROUNDS };
    const signLists = async (tenant: string): Promise<number[]> => {
      const [times] = await once(
        new Worker(SIGNER, { workerData: { ...order, tenant } satisfies ListOrder }),
        "message",
      );
      return times;
    };
    await signLists(`${tenant}-warm-${length}`);
    const before = await firstThreadTime(vault.pid);
    report(`lists of ${length}`, await signLists(`${tenant}-alone-${length}`));
    const worked = ((await firstThreadTime(vault.pid)) - before) / ROUNDS;
    console.log("  event loop, each".padEnd(24), `${worked.toFixed(1)} ms`);
    const { waits } = await beside(sign, () => signLists(`${tenant}-${length}`));
    report("  challenges meanwhile", waits);
  }
} finally {
  await vault.close();
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

/** How long each signature took, one after another, while `work` went on, and what that gave. */
async function beside<T>(
  sign: () => Promise<unknown>,
  work: () => Promise<T>,
): Promise<{ waits: number[]; result: T }> {
  const waits: number[] = [];
  let working = true;
  const done = work().finally(() => {
    working = false;
  });
  while (working) {
    const began = performance.now();
    await sign();
    waits.push(performance.now() - began);
  }
  return { waits, result: await done };
}

function report(what: string, times: readonly number[]): void {
  const { p50, p99 } = percentiles(times);
  const longest = Math.max(...times);
  const figures = Object.entries({ p50, p99, longest }).map(([name, ms]) => `${name} ${ms.toFixed(1)} ms`);
  console.log(what.padEnd(24), figures.join(", "), `(${times.length})`);
}
