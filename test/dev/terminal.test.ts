import { describe, expect, test } from "vitest";
import { createTerminal, type TerminalOptions } from "../../src/dev/terminal.ts";
import { UserError } from "../../src/dev/user_error.ts";

function terminalOn(isTTY: boolean, options: Partial<TerminalOptions> = {}) {
  const written = { out: "", err: "" };
  const stream = (name: "out" | "err") => ({
    isTTY,
    columns: 40,
    write: (text: string) => {
      written[name] += text;
    },
  });
  const terminal = createTerminal({
    out: stream("out"),
    err: stream("err"),
    color: true,
    json: false,
    ...options,
  });
  return { terminal, written };
}

const ESCAPE = String.fromCharCode(27);

/** Returns the text that remains on the screen, without colors. */
function screen(text: string): string[] {
  const lines = text.split("\n").map((line) => line.split(`${ESCAPE}[2K`).at(-1) ?? "");
  return lines.map((line) => line.replaceAll(new RegExp(`${ESCAPE}\\[\\d+m`, "g"), ""));
}

describe("output to a file", () => {
  test("has one plain line for a step and one line for the step's detail", () => {
    const { terminal, written } = terminalOn(false);
    terminal.step("one", "The first").done("seven");
    terminal.step("two", "The second").done();
    terminal.step("three", "The third").fail("broken");
    expect(written.out).toMatch(
      /^ok {3}The first \d+ ms\n {5}seven\nok {3}The second \d+ ms\nFAIL The third \d+ ms\n {5}broken\n$/,
    );
  });

  test("shows a failed step's reason once, in the problem below the step", () => {
    const { terminal, written } = terminalOn(false);
    const problem = new UserError("It is broken", "Mend it");
    terminal.step("one", "The first").fail(problem);
    terminal.problem(problem);
    expect(written.out).toMatch(/^FAIL The first \d+ ms\n$/);
    expect(written.err).toBe("It is broken\nMend it\n");
  });

  test("contains no codes for colors or for erasing lines", () => {
    const { terminal, written } = terminalOn(false);
    terminal.step("one", "The first").fail("broken");
    terminal.warn("careful");
    terminal.problem(new UserError("It is broken", "Mend it"));
    expect(written.out + written.err).not.toContain(ESCAPE);
  });
});

describe("output to a terminal", () => {
  test("shows a step in progress and replaces it with the result", () => {
    const { terminal, written } = terminalOn(true);
    const step = terminal.step("one", "The first");
    expect(screen(written.out)).toEqual([expect.stringMatching(/^⠋ The first \d+ ms$/)]);
    step.done("seven");
    expect(screen(written.out)).toEqual([expect.stringMatching(/^✔ The first \d+ ms$/), "  seven", ""]);
  });

  test("shows a failed step's reason once, in the problem below the step", () => {
    const { terminal, written } = terminalOn(true);
    const problem = new UserError("It is broken", "Mend it");
    terminal.step("one", "The first").fail(problem);
    terminal.problem(problem);
    expect(screen(written.out)).toEqual([expect.stringMatching(/^✘ The first \d+ ms$/), ""]);
    expect(screen(written.err)).toEqual(["It is broken", "Mend it", ""]);
  });

  test("uses color only if it is enabled", () => {
    const colored = terminalOn(true);
    colored.terminal.step("one", "The first").done();
    expect(colored.written.out).toContain(`${ESCAPE}[32m✔`);
    const plain = terminalOn(true, { color: false });
    plain.terminal.step("one", "The first").done();
    expect(plain.written.out).not.toMatch(new RegExp(`${ESCAPE}\\[\\d+m`));
  });

  test("prints a line above the step in progress", () => {
    const { terminal, written } = terminalOn(true);
    const step = terminal.step("one", "The first");
    terminal.line("by the way");
    expect(screen(written.out)).toEqual(["by the way", expect.stringMatching(/^⠋ The first/)]);
    step.done();
    expect(screen(written.out)).toEqual(["by the way", expect.stringMatching(/^✔ The first/), ""]);
  });

  test("clears the step in progress when halt is called", () => {
    const { terminal, written } = terminalOn(true);
    terminal.step("one", "The first");
    terminal.line("by the way");
    terminal.halt();
    expect(screen(written.out)).toEqual(["by the way", ""]);
    terminal.halt();
    terminal.line("the end");
    expect(screen(written.out)).toEqual(["by the way", "the end", ""]);
  });

  test("shortens a step in progress to one line", () => {
    const { terminal, written } = terminalOn(true);
    terminal.step("one", "x".repeat(200));
    const line = screen(written.out).at(-1) ?? "";
    expect(line).toMatch(/x…$/);
    expect(line.length).toBeLessThan(40);
  });
});

describe("output in JSON mode", () => {
  test("has one object per step and nothing else", () => {
    for (const isTTY of [true, false]) {
      const { terminal, written } = terminalOn(isTTY, { json: true });
      terminal.line("for people");
      terminal.step("one", "The first").done("seven");
      terminal.step("two", "The second").fail("broken\nin two");
      expect(written.out.split("\n").map((line) => (line === "" ? undefined : JSON.parse(line)))).toEqual([
        { step: "one", ok: true, ms: expect.any(Number), detail: "seven" },
        { step: "two", ok: false, ms: expect.any(Number), detail: "broken in two" },
        undefined,
      ]);
    }
  });

  test("contains the message of a failed step's error, without the stack", () => {
    const { terminal, written } = terminalOn(false, { json: true });
    terminal.step("one", "The first").fail(new UserError("It is broken", "Mend it"));
    terminal.step("two", "The second").fail(new TypeError("unexpected"));
    terminal
      .step("three", "The third")
      .fail(Object.assign(new Error("EROFS"), { code: "EROFS", path: "/x" }));
    expect(
      written.out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).detail),
    ).toEqual(["It is broken", "unexpected", "/x cannot be used: its file system is read-only"]);
    expect(written.err).toBe("");
  });

  test("contains no problems, which go to the error stream", () => {
    const { terminal, written } = terminalOn(false, { json: true });
    terminal.problem(new UserError("It is broken", "Mend it"));
    expect(written).toEqual({ out: "", err: "It is broken\nMend it\n" });
  });
});

test("a step ignores a second call of done or fail", () => {
  const { terminal, written } = terminalOn(false);
  const step = terminal.step("one", "The first");
  step.done();
  step.fail("too late");
  expect(written.out).toMatch(/^ok {3}The first \d+ ms\n$/);
});

test("a detail cannot move the cursor or change colors", () => {
  const { terminal, written } = terminalOn(true, { color: false });
  terminal.step("one", "The first").done(`${ESCAPE}[31mred\r\nover`);
  expect(screen(written.out)).toContain("   [31mred over");
});

test("problem prints a user error's message and remedy, and the stack of other errors", () => {
  const { terminal, written } = terminalOn(false);
  terminal.problem(new UserError("It is broken", "Mend it"));
  terminal.problem(new TypeError("unexpected"));
  expect(written.err).toMatch(/^It is broken\nMend it\nTypeError: unexpected\n\s+at /);
});
