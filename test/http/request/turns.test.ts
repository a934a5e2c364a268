import { describe, expect, test } from "vitest";
import { createTurns } from "../../../src/http/request/turns.ts";

const turnsOf = (waitMs = 5_000, most = 2) =>
  createTurns<number>({ most, waitMs, full: () => new Error("full"), late: () => new Error("late") });

/** Something that is under way until it is told how it ends. */
function held() {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  return { act: () => promise, resolve, reject };
}

describe("turns", () => {
  test("are one at a time for a name: who waits has what the first gave", async () => {
    const turns = turnsOf();
    const { act, resolve } = held();
    const first = turns.take("a", act);
    const second = turns.take("a", async () => 2);
    expect(await turns.take("b", async () => 3)).toEqual({ outcome: 3, shared: false });
    resolve(1);
    expect([await first, await second]).toEqual([
      { outcome: 1, shared: false },
      { outcome: 1, shared: true },
    ]);
    expect(await turns.take("a", async () => 4)).toEqual({ outcome: 4, shared: false });
  });

  test("that came to nothing are left to one of those who wait", async () => {
    const turns = turnsOf();
    const { act, reject } = held();
    const first = turns.take("a", act);
    let done = 0;
    const next = async () => {
      done += 1;
      return done;
    };
    const others = [turns.take("a", next), turns.take("a", next)];
    reject(new Error("nothing"));
    await expect(first).rejects.toThrow("nothing");
    expect((await Promise.all(others)).map(({ outcome }) => outcome)).toEqual([1, 1]);
    expect(done).toBe(1);
  });

  test("have so many wait, and so long", async () => {
    const turns = turnsOf(200);
    const { act, resolve } = held();
    const first = turns.take("a", act);
    const late = [turns.take("a", act), turns.take("a", act)];
    await expect(turns.take("a", act)).rejects.toThrow("full");
    for (const each of late) await expect(each).rejects.toThrow("late");
    const again = turns.take("a", async () => 2);
    resolve(1);
    expect([await first, await again].map(({ shared }) => shared)).toEqual([false, true]);
  });
});
