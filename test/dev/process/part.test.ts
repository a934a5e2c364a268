import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { runningChild } from "../../../src/dev/process/part.ts";

test.each([
  ["exit 3", "exit status 3"],
  ["kill -KILL $$", "SIGKILL"],
])("runningChild reports the exit of a child that has already exited: %s", async (command, how) => {
  const child = spawn("/bin/sh", ["-c", command], { stdio: "ignore" });
  await once(child, "exit");
  const running = runningChild(child, 60_000);
  await running.stop();
  expect(await running.exited).toBe(how);
});
