import { expect, test } from "vitest";
import { createTerminal } from "../../../src/dev/terminal.ts";
import { runTour } from "../../../src/dev/tour/run_tour.ts";
import type { TourState, TourStep, TourWorld } from "../../../src/dev/tour/steps.ts";
import { UserError } from "../../../src/dev/user_error.ts";

function show() {
  const shown = { out: "", err: "" };
  const stream = (name: "out" | "err") => ({
    write: (text: string) => {
      shown[name] += text;
    },
  });
  return {
    shown,
    terminal: createTerminal({ out: stream("out"), err: stream("err"), color: false, json: false }),
  };
}

const step = (name: string, run: TourStep["run"]): TourStep => ({ name, title: `Step ${name}`, run });

const fails = step("b", async () => {
  throw new Error("CeilingExceeded: it shrank");
});

function tour(interrupted: AbortSignal, mayFail: boolean, ...steps: TourStep[]) {
  return { steps, world: {} as TourWorld, state: {} as TourState, interrupted, mayFail };
}

const quiet = new AbortController().signal;
const first = step("a", async () => "fine");
const last = step("c", async () => "never shown");

test("runTour resolves to true if all steps pass", async () => {
  const { terminal, shown } = show();
  expect(await runTour(terminal, tour(quiet, true, first))).toBe(true);
  expect(shown.out).toContain("ok   Step a");
  expect(shown.err).toBe("");
});

test("runTour warns and skips the later steps after a failing step if the tour may fail", async () => {
  const { terminal, shown } = show();
  expect(await runTour(terminal, tour(quiet, true, first, fails, last))).toBe(false);
  expect(shown.out).toMatch(/FAIL Step b .*\n {5}CeilingExceeded: it shrank/);
  expect(shown.out).not.toContain("Step c");
  expect(shown.err).toContain("stays up without the rest of the tour");
});

test("runTour throws an error with the failing step's reason if the tour may not fail", async () => {
  const { terminal, shown } = show();
  const thrown = await runTour(terminal, tour(quiet, false, fails, last)).catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(UserError);
  expect((thrown as UserError).message).toBe('"Step b" did not go as expected: CeilingExceeded: it shrank');
  expect(shown.out).toMatch(/^FAIL Step b \d+ ms\n$/);
  expect(shown.out).not.toContain("Step c");
});

test("runTour rethrows an interruption even if the tour may fail", async () => {
  const { terminal, shown } = show();
  const over = new AbortController();
  const cut = step("b", async () => {
    over.abort();
    throw new Error("connection lost");
  });
  await expect(runTour(terminal, tour(over.signal, true, cut, last))).rejects.toThrow("connection lost");
  expect(shown.out).toMatch(/FAIL Step b .*\n {5}stopped/);
  expect(shown.err).toBe("");
  await expect(runTour(terminal, tour(over.signal, true, last))).rejects.toThrow();
});
