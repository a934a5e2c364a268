import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { nicenessOfThreads } from "../../support/threads.ts";

const MODULE = fileURLToPath(new URL("../../../src/proofs/queue/pool_threads.ts", import.meta.url));
const THREADS = fileURLToPath(new URL("../../support/threads.ts", import.meta.url));

test("the pool's threads give way to the main thread, and no other thread does", async () => {
  const script = `
    const { havePoolGiveWay } = await import(${JSON.stringify(MODULE)});
    const { nicenessOfThreads } = await import(${JSON.stringify(THREADS)});
    const before = nicenessOfThreads(process.pid);
    await havePoolGiveWay();
    console.log(JSON.stringify([before, nicenessOfThreads(process.pid)]));`;
  const args = ["--input-type=module", "--eval", script];
  const env = { ...process.env, UV_THREADPOOL_SIZE: "3" };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  const [before, after] = JSON.parse(stdout) as ReturnType<typeof nicenessOfThreads>[];
  expect(before?.every(({ niceness }) => niceness === 0)).toBe(true);
  const pool = after?.filter(({ name }) => name === "libuv-worker");
  expect(pool?.map(({ niceness }) => niceness)).toEqual([10, 10, 10]);
  const others = after?.filter(({ name }) => name !== "libuv-worker");
  expect(others?.length).toBeGreaterThan(0);
  expect(others?.every(({ niceness }) => niceness === 0)).toBe(true);
});
