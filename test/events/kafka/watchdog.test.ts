import { expect, test } from "vitest";
import { createWatchdog } from "../../../src/events/kafka/membership.ts";
import { virtualClock } from "../support/time.ts";

function setUp() {
  const clock = virtualClock();
  const told: string[] = [];
  const kafka = { answers: true };
  const watchdog = createWatchdog({
    name: "webhooks",
    clock,
    async answers() {
      if (!kafka.answers) throw new Error("away");
    },
    fatal: (error) => told.push(error.message),
  });
  /** Advances the clock and checks every ten seconds. */
  const after = async (seconds: number) => {
    for (let rest = seconds; rest > 0; rest -= 10) {
      clock.advance(Math.min(rest, 10));
      await watchdog.check();
    }
  };
  return { after, told, kafka, clock, watchdog };
}

test("the watchdog ends the process once if a reader is silent for two minutes while Kafka answers", async () => {
  const { after, told } = setUp();
  await after(119);
  expect(told).toEqual([]);
  await after(1);
  await after(60);
  expect(told).toEqual(["The reader webhooks has been silent for 120 s although Kafka answers"]);
});

test("any activity of the reader restarts the watchdog's two minutes", async () => {
  const { after, told, watchdog } = setUp();
  await after(100);
  watchdog.sign();
  await after(100);
  expect(told).toEqual([]);
});

test("the watchdog reports how long the reader has been silent", async () => {
  const { after, watchdog } = setUp();
  await after(7.5);
  expect(watchdog.silentSeconds()).toBe(7.5);
  watchdog.sign();
  expect(watchdog.silentSeconds()).toBe(0);
});

test("the watchdog waits while Kafka does not answer, and for two minutes afterwards", async () => {
  const { after, told, kafka } = setUp();
  kafka.answers = false;
  await after(600);
  kafka.answers = true;
  await after(119);
  expect(told).toEqual([]);
  await after(1);
  expect(told).toHaveLength(1);
});

/* After a freeze, the watchdog checks before the reader can show activity. */
test("the watchdog ignores the time during which the process was frozen", async () => {
  const { after, told, clock, watchdog } = setUp();
  await after(30);
  clock.advance(600);
  await watchdog.check();
  await after(119);
  expect(told).toEqual([]);
  await after(1);
  expect(told).toHaveLength(1);
});
