import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { generateSeeds, importSeeds, signHybrid } from "../../src/protocol/keys/hybrid.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import type { Aim, Ratio } from "./results/figures.ts";
import { addWaits, createRecord, type FigureRecord } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { inTurns, times } from "./timing.ts";
import { openDisk, waitForDisk } from "./vault/disk.ts";
import { type BenchVault, startBenchVault, startPlainSigner } from "./vault/place.ts";
import { rewrapAll } from "./vault/rewrap.ts";
import { storeFillingKeys, storeTenants } from "./vault/stock.ts";

/**
 * Measures the cost of a hybrid signature over mutual TLS with its audit record on disk, in a vault with 100
 * keys and one with 100,000 keys. The baseline imports two seeds and signs in this process. Run `node
 * test/bench/vault.ts`.
 *
 * All of them alternate within one run. On a busy machine, compare processor time and ratios.
 */
const WARM_UP = 300;
const ROUNDS = 1_200;
const LOAD = 4_000;
const CONCURRENCY = [1, 4, 16, 32];
const KEYS = 100;
const MANY_KEYS = 100_000;
const TENANTS = 20_000;

const challenge = Buffer.alloc(32, 1).toString("base64");
const binding = () => ({ challenge, challenge_at: Math.floor(Date.now() / 1000) });

const IN_PROCESS = "in process";
const OVER_TLS = "over mutual TLS, only signing";
const VAULT = "over mutual TLS, the vault";
const RATIOS: Ratio[] = [
  ratio(VAULT, IN_PROCESS, "p50", { atMost: 1.5 }),
  ratio(VAULT, IN_PROCESS, "p99", { atMost: 1.6 }),
  ratio(OVER_TLS, IN_PROCESS, "p50"),
  ratio(VAULT, OVER_TLS, "p50"),
  ratio(`${VAULT}, without disk syncs`, `${IN_PROCESS}, second half`, "p50"),
  ratio(withKeys("a key's first signature", MANY_KEYS), withKeys("a key's first signature", KEYS), "p50", {
    atMost: 1.2,
  }),
  ratio(withKeys("a signature", MANY_KEYS), withKeys("a signature", KEYS), "p50", { atMost: 1.2 }),
];

function ratio(over: string, under: string, percentile: "p50" | "p99", aim?: Aim): Ratio {
  const name = `${over} / ${under}, ${percentile}`;
  return { name, over: `${over}: ${percentile}`, under: `${under}: ${percentile}`, ...(aim && { aim }) };
}

type Signing = (round: number) => Promise<unknown>;

const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
const few = await startBenchVault(postgres, dir, "few");
const many = await startBenchVault(postgres, dir, "many");
const plain = await startPlainSigner(few);
try {
  const record = createRecord();
  await measure(record);
  report({ figures: record.figures(), ratios: RATIOS });
} finally {
  await Promise.all([plain.close(), few.close(), many.close()]);
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

async function measure(record: FigureRecord): Promise<void> {
  const signFew = await makeKeys(few);
  const signMany = await makeKeys(many);
  await storeTenants(many, TENANTS);
  await storeFillingKeys(many, MANY_KEYS - KEYS, TENANTS);
  const first = await inTurns(KEYS, { few: signFew, many: signMany });
  addKeys(record, "a key's first signature", first);
  const seeds = generateSeeds();
  const bare = () => signHybrid(importSeeds(seeds), challengeSignBytes(binding()));
  const signPlain = () => plain.transport.call({ method: "POST", path: "/", body: binding() });
  for (const work of [bare, signPlain, signFew, signMany]) await times(WARM_UP, 4, work);
  await measureSingle(record, { bare, plain: signPlain, audited: signFew });
  addKeys(record, "a signature", await inTurns(ROUNDS, { few: signFew, many: signMany }));
  await measureLoad(record, bare, signFew);
  await measureRewrap(record);
}

/** Creates {@link KEYS} keys, each for a separate tenant. Returns a function that signs with them in turn. */
async function makeKeys({ client }: BenchVault): Promise<Signing> {
  const keys: { tenant: string; keyId: string }[] = [];
  await times(KEYS, 4, async (run) => {
    const tenant = `tenant-${run}`;
    const key = await client.createKey(
      { tenant, purpose: "agent", label: tenant, ceiling: [] },
      `key-of-${tenant}`,
    );
    keys[run] = { tenant, keyId: key.key_id };
  });
  return (round) => {
    const key = keys[round % KEYS];
    if (key === undefined) throw new Error("A key is missing");
    return client.signChallenge(key, binding());
  };
}

/**
 * Measures one signature at a time in this process, in the plain signer and in the vault, with and without
 * disk syncs. Also measures the disk sync alone.
 */
async function measureSingle(
  record: FigureRecord,
  works: Record<"bare" | "plain" | "audited", Signing>,
): Promise<void> {
  const disk = await openDisk(join(dir, "disk"));
  const single = await inTurns(ROUNDS, { ...works, disk: disk.write });
  await disk.close();
  addWaits(record, IN_PROCESS, single.bare);
  addWaits(record, OVER_TLS, single.plain);
  addWaits(record, VAULT, single.audited);
  addWaits(record, "a disk sync alone", single.disk);
  await waitForDisk(postgres, false);
  const unsynced = await inTurns(ROUNDS, works);
  await waitForDisk(postgres, true);
  addWaits(record, `${IN_PROCESS}, second half`, unsynced.bare);
  addWaits(record, `${VAULT}, without disk syncs`, unsynced.audited);
}

async function measureLoad(record: FigureRecord, bare: Signing, audited: Signing): Promise<void> {
  const bareStart = await processorTime(process.pid);
  record.add(`${IN_PROCESS}, 4 concurrent`, "signatures a second", (await rate(4, bare)).perSecond);
  const bareMicroseconds = ((await processorTime(process.pid)) - bareStart) / LOAD;
  record.add(IN_PROCESS, "µs of the processor a signature", bareMicroseconds);
  const before = await partsTime();
  await times(LOAD, 16, audited);
  const after = await partsTime();
  for (const [part, time] of Object.entries(after)) {
    const used = (time - before[part as keyof typeof before]) / LOAD;
    record.add(part, "µs of the processor a signature", used);
  }
  for (const atOnce of CONCURRENCY) {
    const { perSecond, durations } = await rate(atOnce, audited);
    record.add(`the vault, ${atOnce} concurrent`, "signatures a second", perSecond);
    addWaits(record, `the vault, ${atOnce} concurrent`, durations);
  }
}

async function partsTime() {
  const vault = await processorTime(few.pid);
  return {
    client: await processorTime(process.pid),
    vault,
    token: (await processorTimeWithChildren(few.pid)) - vault,
    postgres: await processorTimeWithChildren(postgres.pid),
  };
}

async function measureRewrap(record: FigureRecord): Promise<void> {
  const before = await processorTimeWithChildren(many.pid);
  const { keys, seconds } = await rewrapAll(many);
  const used = (await processorTimeWithChildren(many.pid)) - before;
  record.add("rewrapped", "data keys a second", keys / seconds);
  record.add("a data key rewrapped: vault and token", "µs of the processor", used / keys);
}

async function rate(concurrency: number, work: Signing): Promise<{ perSecond: number; durations: number[] }> {
  const start = performance.now();
  const durations = await times(LOAD, concurrency, work);
  return { perSecond: LOAD / ((performance.now() - start) / 1000), durations };
}

function addKeys(record: FigureRecord, what: string, taken: Record<"few" | "many", number[]>): void {
  addWaits(record, withKeys(what, KEYS), taken.few);
  addWaits(record, withKeys(what, MANY_KEYS), taken.many);
}

function withKeys(what: string, count: number): string {
  return `${what}, ${count} keys`;
}
