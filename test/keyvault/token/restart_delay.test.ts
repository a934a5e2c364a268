import { expect, test } from "vitest";
import { createRestartDelays } from "../../../keyvault/token/restart_delay.ts";

function delays() {
  const clock = { now: 0 };
  return { clock, ...createRestartDelays(() => clock.now) };
}

test("delays grow although the token opens again each time", () => {
  const { clock, next, opened, ended } = delays();
  const taken = Array.from({ length: 9 }, () => {
    opened();
    clock.now += 59_999;
    ended();
    return next();
  });
  expect(taken).toEqual([50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
});

test("delays start over after the token was open for a minute", () => {
  const { clock, next, opened, ended } = delays();
  next();
  next();
  opened();
  clock.now += 60_000;
  ended();
  expect(next()).toBe(50);
});
