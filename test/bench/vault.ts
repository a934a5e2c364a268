import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { challengeSignBytes } from "../../src/protocol/documents/challenge.ts";
import { generateSeeds, importSeeds, signHybrid } from "../../src/protocol/keys/hybrid.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import { openDisk, waitForDisk } from "./vault/disk.ts";
import { type BenchVault, startBenchVault, startPlainSigner } from "./vault/place.ts";
import { rewrapAll } from "./vault/rewrap.ts";
import { storeFillingKeys, storeTenants } from "./vault/stock.ts";
import { inTurns, type Percentiles, percentiles, times } from "./vault/timing.ts";

/**
 * What a hybrid signature costs over mutual TLS with its audit record on disk, against importing two seeds
 * and signing in this process: measured in turns in one run, so that a busy machine slows both. Two vaults,
 * one with 100 keys and one with 100,000, are processes of their own on a Postgres that waits for the disk;
 * this process is the client. Where other things use the machine, the processor's time and the ratios are
 * what to compare. `node test/bench/vault.ts [--json]`.
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

type Signing = (round: number) => Promise<unknown>;

const dir = await mkdtemp(join(tmpdir(), "keyvault-bench-"));
const postgres = await startPostgres({ dataDir: join(dir, "postgres") });
const few = await startBenchVault(postgres, dir, "few");
const many = await startBenchVault(postgres, dir, "many");
const plain = await startPlainSigner(few);
try {
  const figures = await measure();
  if (process.argv.includes("--json")) {
    console.log(JSON.stringify(figures));
  } else {
    report(figures);
  }
} finally {
  await Promise.all([plain.close(), few.close(), many.close()]);
  await postgres.stop();
  await rm(dir, { recursive: true, force: true });
}

async function measure() {
  const signFew = await makeKeys(few);
  const signMany = await makeKeys(many);
  await storeTenants(many, TENANTS);
  await storeFillingKeys(many, MANY_KEYS - KEYS, TENANTS);
  const first = await inTurns(KEYS, { few: signFew, many: signMany });
  const seeds = generateSeeds();
  const bare = () => signHybrid(importSeeds(seeds), challengeSignBytes(binding()));
  const signPlain = () => plain.transport.call({ method: "POST", path: "/", body: binding() });
  for (const work of [bare, signPlain, signFew, signMany]) await times(WARM_UP, 4, work);
  const { single, unsynced } = await measureSingle({ bare, plain: signPlain, audited: signFew });
  const known = await inTurns(ROUNDS, { few: signFew, many: signMany });
  const load = await measureLoad(bare, signFew);
  const rewrap = await measureRewrap();
  return { single, unsynced, keys: { first: p50s(first), known: p50s(known) }, load, rewrap };
}

/** Makes {@link KEYS} keys, each of a tenant of its own, and gives what signs with one after another. */
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
 * One at a time: signing here, by the plain signer, in the vault, and the wait for the disk alone; then again
 * without that wait.
 */
async function measureSingle(works: Record<"bare" | "plain" | "audited", Signing>) {
  const disk = await openDisk(join(dir, "disk"));
  const single = mapValues(await inTurns(ROUNDS, { ...works, disk: disk.write }), percentiles);
  await disk.close();
  await waitForDisk(postgres, false);
  const unsynced = mapValues(await inTurns(ROUNDS, works), percentiles);
  await waitForDisk(postgres, true);
  return { single, unsynced };
}

async function measureLoad(bare: Signing, audited: Signing) {
  const bareStart = await processorTime(process.pid);
  const barePerSecond = await perSecond(4, bare);
  const bareMicroseconds = ((await processorTime(process.pid)) - bareStart) / LOAD;
  const before = await partsTime();
  await times(LOAD, 16, audited);
  const after = await partsTime();
  const used = mapValues(after, (time, part) => (time - before[part]) / LOAD);
  const rates: { at_once: number; per_second: number; p50: number; p99: number }[] = [];
  for (const at_once of CONCURRENCY) rates.push({ at_once, ...(await rate(at_once, audited)) });
  return { barePerSecond, microseconds: { bare: bareMicroseconds, ...used }, rates };
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

async function measureRewrap() {
  const before = await processorTimeWithChildren(many.pid);
  const { keys, seconds } = await rewrapAll(many);
  const used = (await processorTimeWithChildren(many.pid)) - before;
  return { keys, per_second: keys / seconds, vault_microseconds: used / keys };
}

async function rate(concurrency: number, work: Signing): Promise<{ per_second: number } & Percentiles> {
  const start = performance.now();
  const durations = await times(LOAD, concurrency, work);
  return { per_second: LOAD / ((performance.now() - start) / 1000), ...percentiles(durations) };
}

async function perSecond(concurrency: number, work: Signing): Promise<number> {
  return (await rate(concurrency, work)).per_second;
}

function p50s(taken: Record<"few" | "many", readonly number[]>): {
  few: number;
  many: number;
  ratio: number;
} {
  const [a, b] = [percentiles(taken.few).p50, percentiles(taken.many).p50];
  return { few: a, many: b, ratio: b / a };
}

function mapValues<Name extends string, From, To>(
  values: Record<Name, From>,
  map: (value: From, name: Name) => To,
): Record<Name, To> {
  const entries = Object.entries(values) as [Name, From][];
  return Object.fromEntries(entries.map(([name, value]) => [name, map(value, name)])) as Record<Name, To>;
}

function report({ single, unsynced, keys, load, rewrap }: Awaited<ReturnType<typeof measure>>): void {
  const round = (value: number): number => Number(value.toFixed(2));
  const rounded = (row: Record<string, number>) => mapValues(row, round);
  const ratio = (to: Percentiles, from: Percentiles) => ({
    p50: round(to.p50 / from.p50),
    p99: round(to.p99 / from.p99),
  });
  console.log("one signature at a time, ms:");
  console.table({
    "in process": rounded(single.bare),
    "over mTLS, nothing but signing": rounded(single.plain),
    "over mTLS, the vault": rounded(single.audited),
    "ratio: vault to in process": ratio(single.audited, single.bare),
    "ratio: nothing but signing to in process": ratio(single.plain, single.bare),
    "ratio: vault to nothing but signing": ratio(single.audited, single.plain),
    "the wait for the disk alone": rounded(single.disk),
    "in process (second half)": rounded(unsynced.bare),
    "the vault, disk not waited for": rounded(unsynced.audited),
    "ratio, disk not waited for": ratio(unsynced.audited, unsynced.bare),
  });
  console.log(`p50 in ms with ${KEYS} and with ${MANY_KEYS} keys:`);
  console.table({ "a key's first signature": rounded(keys.first), "keys in use": rounded(keys.known) });
  console.log(`in process, 4 at once: ${Math.round(load.barePerSecond)} signatures a second`);
  console.log("processor's microseconds for one signature, 16 at once:");
  console.table(mapValues(load.microseconds, Math.round));
  const { bare: _, ...parts } = load.microseconds;
  const all = Object.values(parts).reduce((sum, used) => sum + used, 0);
  console.log(`two cores have time for ${Math.round(2e6 / all)} a second`);
  console.table(load.rates.map(rounded));
  console.log(`rewrapped ${rewrap.keys} data keys, ${Math.round(rewrap.per_second)} a second,`);
  console.log(
    `with ${Math.round(rewrap.vault_microseconds)} µs of the vault's and the token's processor for each`,
  );
}
