import type { Coverage } from "./coverage.ts";
import { mutate } from "./mutations.ts";
import { createRandom, pick } from "./random.ts";

export type Target = {
  name: string;
  seeds: readonly Uint8Array[];
  /** Runs an input and returns a short description of its result. Throws if that result is not allowed. */
  run(input: Uint8Array): string | Promise<string>;
};

export type FuzzFinding = {
  target: string;
  input: Uint8Array;
  message: string;
};

export type Drive = {
  seed: number;
  coverage: Coverage;
  /** Called before each batch. */
  goesOn(): boolean;
  /** Called before each input, so that another thread can see which input is running. */
  starts(target: string, input: Uint8Array): void;
  finds(finding: FuzzFinding): void;
  keeps?(target: string, input: Uint8Array): void;
};

export type Tally = {
  executed: number;
  kept: number;
  outcomes: number;
  covered: number;
};

const BATCH = 32;
const RECENT = 24;

/**
 * Mutates inputs of each target in turn, and keeps inputs that run new source code or have a new result.
 * Coverage is measured per batch first, because this costs more than running an input. Each error message is
 * reported once.
 */
export async function fuzz(targets: readonly Target[], drive: Drive): Promise<Tally> {
  const random = createRandom(drive.seed);
  const outcomes = new Set<string>();
  const messages = new Set<string>();
  const pools = new Map(targets.map(({ name, seeds }) => [name, [...seeds]]));
  let executed = 0;

  for (const target of targets) for (const seed of target.seeds) await execute(target, seed);
  drive.coverage.countNew();
  while (drive.goesOn()) {
    for (const target of targets) await runBatch(target, pools.get(target.name) ?? []);
  }
  const kept = [...pools.values()].reduce((sum, pool) => sum + pool.length, 0);
  return { executed, kept, outcomes: outcomes.size, covered: drive.coverage.total() };

  async function runBatch(target: Target, pool: Uint8Array[]): Promise<void> {
    const batch: Uint8Array[] = [];
    const isNew: boolean[] = [];
    for (let count = 0; count < BATCH; count += 1) {
      const recent = random(2) === 0 ? pool.slice(-RECENT) : pool;
      const input = mutate(pick(random, recent), pick(random, pool), random);
      batch.push(input);
      isNew.push(await execute(target, input));
    }
    const reachedNew = drive.coverage.sawNew();
    for (const [index, input] of batch.entries()) {
      if (reachedNew) await execute(target, input);
      if (!(reachedNew && drive.coverage.countNew() > 0) && isNew[index] !== true) continue;
      pool.push(input);
      drive.keeps?.(target.name, input);
    }
  }

  async function execute(target: Target, input: Uint8Array): Promise<boolean> {
    drive.starts(target.name, input);
    executed += 1;
    try {
      const outcome = `${target.name} ${await target.run(input)}`;
      const isNew = !outcomes.has(outcome);
      outcomes.add(outcome);
      return isNew;
    } catch (error) {
      const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      if (!messages.has(message)) {
        messages.add(message);
        drive.finds({ target: target.name, input, message });
      }
      return false;
    }
  }
}
