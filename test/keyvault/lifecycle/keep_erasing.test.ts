import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { keepErasing } from "../../../keyvault/lifecycle/erase_due.ts";
import { SILENT } from "../fixture.ts";

const TEN_MINUTES_MS = 600_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Successive erasures return these numbers of keys, and fail for `undefined`. */
function erasing(...numbers: (number | undefined)[]) {
  const lines: unknown[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  let calls = 0;
  const keeper = keepErasing(async () => {
    const keys = numbers[calls++];
    if (keys === undefined) throw new Error("no database");
    return { keys, tenants: 0 };
  }, log);
  return { keeper, lines, calls: () => calls };
}

test("keepErasing erases immediately and every ten minutes until stop()", async () => {
  const { keeper, calls } = erasing(0, 0, 0);
  expect(calls()).toBe(1);
  await vi.advanceTimersByTimeAsync(TEN_MINUTES_MS - 1);
  expect(calls()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls()).toBe(2);
  await keeper.stop();
  await vi.advanceTimersByTimeAsync(10 * TEN_MINUTES_MS);
  expect(calls()).toBe(2);
});

test("keepErasing logs a failure and tries again, and logs nothing if nothing was erased", async () => {
  const { keeper, lines } = erasing(undefined, 0, 2);
  await vi.advanceTimersByTimeAsync(2 * TEN_MINUTES_MS);
  await keeper.stop();
  expect(lines).toMatchObject([
    { event: "erasing_failed", reason: "no database" },
    { event: "erased", keys: 2, tenants: 0 },
  ]);
});

test("keepErasing.stop() waits for the current run", async () => {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>();
  const keeper = keepErasing(() => gate.then(() => ({ keys: 0, tenants: 0 })), SILENT);
  let stopped = false;
  const stopping = keeper.stop().then(() => {
    stopped = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(stopped).toBe(false);
  letGo();
  await stopping;
});
