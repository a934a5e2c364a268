import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { isRunning, killHard, until } from "../support/process.ts";
import { stackWorld } from "./stack_world.ts";

const world = stackWorld();
const { describePart, start, startElsewhere, noted, pids } = world;

describe("after SIGKILL of the stack's process", () => {
  test("every part exits, even a part that ignores SIGTERM", async () => {
    const { child } = await startElsewhere(
      await describePart("good"),
      await describePart("bad", { manner: "stubborn", graceMs: 300 }),
    );
    const { good = 0, bad = 0 } = await pids();
    await killHard(child);
    await until("both parts have ended", () => !isRunning(good) && !isRunning(bad));
    expect((await noted()).filter((line) => line.endsWith("down"))).toEqual(["good down"]);
  });

  test("the next stack on the folder waits until the killed stack's parts have exited", async () => {
    const only = await describePart("only", { manner: "stubborn", graceMs: 1000 });
    const { child } = await startElsewhere(only);
    const before = await pids();
    await killHard(child);
    await start(only);
    expect(isRunning(before.only ?? 0)).toBe(false);
  });
});

describe("a signal to the stack", () => {
  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "stops the parts in order, and the stack exits with 0 (%s)",
    async (signal) => {
      const { child } = await startElsewhere(await describePart("first"), await describePart("second"));
      const exit = once(child, "exit");
      child.kill(signal);
      expect(await exit).toEqual([0, null]);
      expect((await noted()).slice(2)).toEqual(["second down", "first down"]);
    },
  );

  test("kills the parts when it arrives a second time", async () => {
    const { child } = await startElsewhere(
      await describePart("only", { manner: "stubborn", graceMs: 600_000 }),
    );
    const { only = 0 } = await pids();
    const exit = once(child, "exit");
    child.kill("SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(isRunning(only)).toBe(true);
    child.kill("SIGINT");
    expect(await exit).toEqual([130, null]);
    await until("the part has ended", () => !isRunning(only));
  });
});
