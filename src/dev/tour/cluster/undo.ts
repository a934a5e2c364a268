import type { Terminal } from "../../terminal.ts";
import { messageOf } from "../../user_error.ts";

/** Something that the tour has created or is about to create. */
export type Made = {
  /** Name that is shown to users. If the name is absent, the removal is not shown. */
  what?: string;
  /** Removes the object. Succeeds if the object does not exist. */
  remove(): Promise<void>;
  /** Shell command that does the same removal. Absent for parts of this process. */
  byHand?: string;
};

/** Everything that the tour has created and must remove at the end. */
export type Undo = {
  /** Call this function before you create the object, so that a partly created object is removed too. */
  add(made: Made): void;
  /**
   * Removes everything in reverse order and shows the removal as a step. After the first failure it leaves
   * the cluster as it is, stops only the parts of this process, and prints what is left. Resolves to true if
   * nothing is left.
   */
  all(): Promise<boolean>;
  /** Prints what is left in the cluster. */
  printLeft(): void;
};

/** Creates an empty list. */
export function createUndo(terminal: Terminal): Undo {
  const made: Made[] = [];

  function printLeft(): void {
    const lines = made.toReversed().flatMap(({ byHand }) => byHand ?? []);
    if (lines.length > 0) terminal.warn(["Left in the cluster; to remove it:", ...lines].join("\n  "));
  }

  async function removeAll(): Promise<string[]> {
    const removed: string[] = [];
    for (let last = made.at(-1); last !== undefined; last = made.at(-1)) {
      await last.remove();
      made.pop();
      if (last.what !== undefined) removed.push(last.what);
    }
    return removed;
  }

  return {
    add: (one) => void made.push(one),
    async all() {
      if (made.length === 0) return true;
      const step = terminal.step("removed", "Remove everything that the tour created");
      try {
        step.done((await removeAll()).join(", "));
        return true;
      } catch (error) {
        step.fail(messageOf(error));
        printLeft();
        const own = made.filter(({ byHand }) => byHand === undefined);
        for (const { remove } of own.reverse()) await remove();
        return false;
      }
    },
    printLeft,
  };
}
