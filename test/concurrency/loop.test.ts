import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { expect, test } from "vitest";
import { within } from "../../src/clock.ts";
import { startLoop } from "../../src/concurrency/loop.ts";
import { eventually } from "../events/support/time.ts";

const log = pino({ level: "silent" });
const never = { shortestPause: 3_600_000, longestPause: 3_600_000 };

test("a loop repeats without a pause while there is work", async () => {
  let left = 50;
  const { promise: isDone, resolve } = Promise.withResolvers<string>();
  const step = async () => {
    left -= 1;
    if (left === 0) resolve("done");
    return left > 0;
  };
  const loop = startLoop({ name: "test", log, ...never, step });
  expect(await within(5_000, isDone, "late")).toBe("done");
  await loop.stop();
});

test("a call of wake ends the pause, or during a step causes one more step", async () => {
  let steps = 0;
  const loop = startLoop({
    name: "test",
    log,
    ...never,
    step: async () => {
      steps += 1;
      if (steps === 2) loop.wake();
      return false;
    },
  });
  await eventually("the first step", () => steps === 1);
  await sleep(20);
  expect(steps).toBe(1);
  loop.wake();
  await eventually("two more steps", () => steps === 3);
  await sleep(20);
  expect(steps).toBe(3);
  await loop.stop();
});

test("a loop continues after errors, and logs only the first error and the recovery", async () => {
  const lines: string[] = [];
  const recorder = pino(
    { level: "info" },
    { write: (line: string) => void lines.push(JSON.parse(line).msg) },
  );
  let steps = 0;
  const loop = startLoop({
    name: "test",
    log: recorder,
    step: async () => {
      steps += 1;
      if (steps <= 3) throw new Error("away");
      return false;
    },
  });
  await eventually("it works again", () => steps > 4);
  await loop.stop();
  expect(lines).toEqual(["not working, trying again", "working again"]);
});

test("a call of wake does not shorten the pause after an error", async () => {
  let steps = 0;
  const loop = startLoop({
    name: "test",
    log,
    step: async () => {
      steps += 1;
      throw new Error("away");
    },
  });
  for (let n = 0; n < 200; n++) {
    loop.wake();
    await Promise.resolve();
  }
  expect(steps).toBe(1);
  await loop.stop();
});

test("a call of stop waits for the current step, or ends the pause", async () => {
  let finished = false;
  const loop = startLoop({
    name: "test",
    log,
    ...never,
    step: async () => {
      await sleep(50);
      finished = true;
      return true;
    },
  });
  await loop.stop();
  expect(finished).toBe(true);
  const idle = startLoop({ name: "test", log, ...never, step: async () => false });
  await sleep(20);
  const stopping = idle.stop().then(() => "stopped");
  expect(await within(5_000, stopping, "late")).toBe("stopped");
});
