import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const FILES = ["chart", "doctor/cluster", "kubernetes", "operator", "plugin"].map((name) => `test/${name}`);

test("the chart, the operator and kubectl deputize work on the oldest supported Kubernetes", async () => {
  const child = spawn("npm", ["run", "test:slow", "--", ...FILES], {
    cwd: ROOT,
    env: { ...process.env, KUBERNETES: "oldest", CI: "true" },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
}, 3_600_000);
