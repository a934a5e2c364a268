import type { Terminal } from "../../terminal.ts";
import { messageOf } from "../../user_error.ts";

/** Something that the tour has made, or is about to make. */
export type Made = {
  /** What people call it; nothing is said of it without. */
  what?: string;
  /** Takes it away; fine when it is not there. */
  remove(): Promise<void>;
  /** The line for a shell that does the same; left out for what is this process's own. */
  byHand?: string;
};

/** What the tour has made, to be taken away in the end. */
export type Undo = {
  /** To be called before it is made: what is half made is taken away too. */
  add(made: Made): void;
  /**
   * Takes everything away, what was made last first, and shows it as a step. From the first that cannot be it
   * leaves the cluster as it is, ends what is this process's own, and says what is left. Answers whether
   * nothing is.
   */
  all(): Promise<boolean>;
  /** Says what is left, where nothing is taken away. */
  tellLeft(): void;
};

/** Nothing made yet. */
export function createUndo(terminal: Terminal): Undo {
  const made: Made[] = [];

  function tellLeft(): void {
    const lines = made.toReversed().flatMap(({ byHand }) => byHand ?? []);
    if (lines.length > 0) terminal.warn(["Left in the cluster; to take it away:", ...lines].join("\n  "));
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
      const step = terminal.step("removed", "What the tour made is taken away");
      try {
        step.done((await removeAll()).join(", "));
        return true;
      } catch (error) {
        step.fail(messageOf(error));
        tellLeft();
        const own = made.filter(({ byHand }) => byHand === undefined);
        for (const { remove } of own.reverse()) await remove();
        return false;
      }
    },
    tellLeft,
  };
}
