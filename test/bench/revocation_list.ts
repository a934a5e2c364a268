import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { firstThreadTime } from "./processor_time.ts";
import { addWaits, createRecord, type FigureRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";
import type { ListOrder } from "./vault/list_signer.ts";
import { startBenchVault } from "./vault/place.ts";

/**
 * Measures the cost of long revocation lists in the vault, and their effect on other signing calls. The
 * figures are a call's time, the event loop's work for one list, and the time of challenge signatures
 * meanwhile. Run `node test/bench/revocation_list.ts`.
 */
const LENGTHS = [0, 1_000, 10_000, 50_000];
const ROUNDS = 30;
const WARM_UP = 300;
const ALONE_MS = 3_000;
const ALONE = "a challenge alone";
const TENANT = "acc-bench";
const SIGNER = new URL("./vault/list_signer.ts", import.meta.url);

const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
const vault = await startBenchVault(postgres, dir, "lists");
try {
  const sign = await makeAgent();
  for (let round = 0; round < WARM_UP; round += 1) await sign();
  const record = createRecord();
  addWaits(record, ALONE, await beside(sign, () => sleep(ALONE_MS)));
  for (const length of LENGTHS) await measure(record, length, sign);
  const ratios = LENGTHS.map((length) => ({
    name: `${besideName(length)} / ${ALONE}, p50`,
    over: `${besideName(length)}: p50`,
    under: `${ALONE}: p50`,
  }));
  report({ figures: record.figures(), ratios });
} finally {
  await vault.close();
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

async function makeAgent(): Promise<() => Promise<unknown>> {
  const { key_id: keyId } = await vault.client.createKey(
    { tenant: TENANT, purpose: "agent", label: "agent", ceiling: ["data:read"] },
    "bench-agent",
  );
  const challenge = Buffer.alloc(32, 1).toString("base64");
  const now = () => Math.floor(Date.now() / 1000);
  return () => vault.client.signChallenge({ tenant: TENANT, keyId }, { challenge, challenge_at: now() });
}

async function measure(record: FigureRecord, length: number, sign: () => Promise<unknown>): Promise<void> {
  await signLists(length, "warm");
  const before = await firstThreadTime(vault.pid);
  addWaits(record, `a list of ${length}`, await signLists(length, "alone"));
  const worked = (await firstThreadTime(vault.pid)) - before;
  record.add(`a list of ${length}: event loop`, "ms", worked / ROUNDS);
  addWaits(record, besideName(length), await beside(sign, () => signLists(length, "beside")));
}

function besideName(length: number): string {
  return `a challenge beside lists of ${length}`;
}

async function signLists(length: number, name: string): Promise<number[]> {
  const { url, config } = vault;
  const tenant = `${TENANT}-${length}-${name}`;
  const workerData: ListOrder = { url, tlsDir: config.tlsDir, tenant, length, rounds: ROUNDS };
  const [times] = await once(new Worker(SIGNER, { workerData }), "message");
  return times;
}

async function beside(sign: () => Promise<unknown>, work: () => Promise<unknown>): Promise<number[]> {
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
  await done;
  return waits;
}
