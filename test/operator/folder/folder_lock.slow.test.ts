import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WRONG_SETTING } from "../../../src/config.ts";
import { until } from "../../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../../support/role_process.ts";

let folder: string;
const operators: RoleProcess[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-second-operator-"));
  await mkdir(join(folder, "manifests"));
});
afterEach(async () => {
  await killRoles(operators);
  await rm(folder, { recursive: true });
});

function startOperator(): RoleProcess {
  const operator = startRole("operator", {
    ...{ API_URL: "http://127.0.0.1:1", OPERATOR_API_URL: "http://127.0.0.1:1" },
    ...{ CONSOLE_URL: "http://127.0.0.1:1", OPERATOR_TOKEN: "t".repeat(32) },
    MANIFESTS_DIR: join(folder, "manifests"),
    STATUS_DIR: join(folder, "status"),
    SECRETS_DIR: join(folder, "secrets"),
  });
  operators.push(operator);
  return operator;
}
const hasStarted = ({ log }: RoleProcess) => log.some(({ msg }) => msg === "ready");
const hasEnded = ({ child }: RoleProcess) => child.exitCode !== null || child.signalCode !== null;
const untilStarted = (operator: RoleProcess) =>
  until("the operator has started", () => hasStarted(operator) || hasEnded(operator), 60_000);

test("a second operator on the same folder exits with one line, whatever the first one does", async () => {
  const first = startOperator();
  await untilStarted(first);
  const second = startOperator();
  expect(await second.exit).toBe(WRONG_SETTING);
  expect(second.errors()).toBe(
    `STATUS_DIR: another operator uses ${join(folder, "status")}. Stop it, or choose another folder\n`,
  );
  first.child.kill("SIGSTOP");
  expect(await startOperator().exit, "the first operator is suspended").toBe(WRONG_SETTING);
  first.child.kill("SIGCONT");
  expect(hasEnded(first)).toBe(false);
  expect(await first.end()).toBe(0);
});

test("an operator starts after the one before was killed, and after it stopped", async () => {
  for (const signal of ["SIGKILL", "SIGTERM", "SIGKILL"] as const) {
    const operator = startOperator();
    await untilStarted(operator);
    expect(hasStarted(operator), operator.errors()).toBe(true);
    await operator.end(signal);
  }
});

test("exactly one of several operators that start at the same moment runs", async () => {
  const all = Array.from({ length: 5 }, startOperator);
  await until(
    "each has started or ended",
    () => all.every((one) => hasStarted(one) || hasEnded(one)),
    60_000,
  );
  expect(all.filter(hasStarted)).toHaveLength(1);
  expect(all.filter(hasEnded).map(({ child }) => child.exitCode)).toEqual(Array(4).fill(WRONG_SETTING));
});
