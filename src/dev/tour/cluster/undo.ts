import type { Terminal } from "../../terminal.ts";
import { messageOf } from "../../user_error.ts";

/** Something that the tour has created or is about to create. */
export type Made = {
  /** Name that users see. Without a name, the removal is not shown. */
  what?: string;
  /** Removes the object. Succeeds if the object does not exist. */
  remove(): Promise<void>;
  /** Shell command for the same removal. Absent for parts of this process. */
  byHand?: string;
};

/** The objects that the tour has created or is about to create. It must remove all of them at the end. */
export type Undo = {
  /** Adds an object. Call this function before creating the object, in case the creation is interrupted. */
  add(made: Made): void;
  /**
   * Removes everything in reverse order. After the first failure, leaves the cluster as it is, stops the
   * parts of this process, and prints what is left. Resolves to true if nothing is left.
   */
  all(): Promise<boolean>;
  printLeft(): void;
};

/** Returns a list of objects to remove, which is empty at first. */
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
