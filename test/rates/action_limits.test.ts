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

  test("counts each refusal in deputize_actions_limited_total", async () => {
    const { act, metrics } = await exhausted();
    const read = async () =>
      (await metrics.registry.metrics()).match(/limited_total\{action="replace_key"\} (\d+)/)?.[1];
    expect(await read()).toBe("0");
    await act();
    await act();
    expect(await read()).toBe("2");
  });
});
