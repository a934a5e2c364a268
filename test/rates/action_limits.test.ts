import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { createMetrics } from "../../src/metrics.ts";
import { actionLimits, createActionLimits } from "../../src/rates/action_limits.ts";
import { migratedDatabase, type TestDatabase } from "../support/postgres.ts";

const ACTION = "replace_key";
const [{ points }] = actionLimits[ACTION].rates;

describe("the limit of an action", () => {
  const done = async () => "done";
  let database: TestDatabase;
  let db: Database;

  beforeAll(async () => {
    database = await migratedDatabase();
    db = openDatabase({ url: database.url, name: "test", onError: () => {} });
  });
  afterAll(async () => {
    await db.destroy();
    await database.drop();
  });

  function limits() {
    const metrics = createMetrics();
    const { within } = createActionLimits({ db, metrics });
    const key = [randomUUID()];
    const act = (perform = done) => within(ACTION, key, perform).catch((error) => error);
    return { act, within, key, metrics };
  }
  async function exhausted() {
    const found = limits();
    for (let count = 0; count < points; count += 1) expect(await found.act()).toBe("done");
    return found;
  }

  test("refuses the action with the time to wait, and does not perform it", async () => {
    const { act } = await exhausted();
    let calls = 0;
    const refused = await act(async () => {
      calls += 1;
      return "done";
    });
    expect(refused).toMatchObject({ code: "action_limited", status: 429 });
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(calls).toBe(0);
  });

  test("has the same message as long as it is reached", async () => {
    const { act } = await exhausted();
    const [first, second] = [await act(), await act()];
    expect(first.message).toBe(second.message);
    expect(first.message).not.toMatch(/\d/);
  });

  test("holds for all processes, and separately for each key and action", async () => {
    const { key, within } = await exhausted();
    const other = limits();
    await expect(other.within(ACTION, key, done)).rejects.toMatchObject({ code: "action_limited" });
    expect(await within(ACTION, [...key, "other"], done)).toBe("done");
    expect(await within("requested_key", key, done)).toBe("done");
  });

  test("does not count an action that failed", async () => {
    const { act } = limits();
    const failing = async (): Promise<string> => {
      throw new Error("it failed");
    };
    for (let count = 0; count < 2 * points; count += 1) {
      expect(await act(failing)).toEqual(new Error("it failed"));
    }
    expect(await act()).toBe("done");
  });

  test("counts actions that run at the same time", async () => {
    const { act } = limits();
    const results = await Promise.all(Array.from({ length: 5 * points }, () => act()));
    expect(results.filter((result) => result === "done")).toHaveLength(points);
  });

  describe("deputize_actions_limited_total", () => {
    const counts = async ({ registry }: ReturnType<typeof createMetrics>) => {
      const text = await registry.metrics();
      const read = (action: string) => Number(text.match(`limited_total{action="${action}"} (\\d+)`)?.[1]);
      return [read(ACTION), read("requested_key")];
    };

    test("counts each refusal", async () => {
      const { act, metrics } = await exhausted();
      expect(await counts(metrics)).toEqual([0, 0]);
      await act();
      await act();
      expect(await counts(metrics)).toEqual([2, 0]);
    });

    test("counts the refusal of an action inside another one only for the inner one", async () => {
      const { key, within, metrics } = await exhausted();
      const nested = within("requested_key", key, () => within(ACTION, key, done));
      await expect(nested).rejects.toMatchObject({ code: "action_limited" });
      expect(await counts(metrics)).toEqual([1, 0]);
    });
  });
});
