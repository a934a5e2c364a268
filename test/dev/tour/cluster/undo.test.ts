import { expect, test } from "vitest";
import { createTerminal } from "../../../../src/dev/terminal.ts";
import { createUndo } from "../../../../src/dev/tour/cluster/undo.ts";

function show() {
  const shown = { out: "", err: "" };
  const stream = (name: "out" | "err") => ({
    write: (text: string) => {
      shown[name] += text;
    },
  });
  const terminal = createTerminal({ out: stream("out"), err: stream("err"), color: false, json: false });
  return { shown, undo: createUndo(terminal) };
}

test("undo removes objects once and in reverse order, and prints only the named objects", async () => {
  const { shown, undo } = show();
  const done: string[] = [];
  undo.add({ what: "the first", remove: async () => void done.push("first") });
  undo.add({ remove: async () => void done.push("second") });
  undo.add({ what: "the third", remove: async () => void done.push("third") });
  expect(await undo.all()).toBe(true);
  expect(await undo.all()).toBe(true);
  expect(done).toEqual(["third", "second", "first"]);
  expect(shown.out).toMatch(/^ok {3}Remove everything that the tour created .*\n {5}the third, the first\n$/);
});

test("undo prints nothing if nothing was created", async () => {
  const { shown, undo } = show();
  expect(await undo.all()).toBe(true);
  undo.printLeft();
  expect(shown).toEqual({ out: "", err: "" });
});

test("undo prints the remaining objects after a failed removal, and stops only the parts of this process", async () => {
  const { shown, undo } = show();
  const done: string[] = [];
  undo.add({ remove: async () => void done.push("own") });
  undo.add({ remove: async () => void done.push("first"), byHand: "end the first" });
  undo.add({
    remove: async () => {
      throw new Error("the operator is unavailable");
    },
    byHand: "end the second",
  });
  undo.add({ remove: async () => void done.push("third"), byHand: "end the third" });
  expect(await undo.all()).toBe(false);
  expect(done).toEqual(["third", "own"]);
  expect(shown.out).toMatch(
    /^FAIL Remove everything that the tour created .*\n {5}the operator is unavailable\n$/,
  );
  expect(shown.err).toBe("Left in the cluster; to remove it:\n  end the second\n  end the first\n");
});
