import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/db/database.ts";
import { connectRaw } from "./support/raw_client.ts";
import { FAIL, sampleApi } from "./support/sample_api.ts";

const world = sampleApi();

const named = (name: string) => () =>
  Promise.reject(Object.assign(new Error("no connection was free"), { name }));

async function failTimes(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await world.post(FAIL);
}

type Line = { level: number; left_out?: number; fault?: { type: string } };
const faults = () =>
  world.api.lines.map((line): Line => JSON.parse(line)).filter(({ fault }) => fault !== undefined);

describe("many calls without a free database connection", () => {
  beforeEach(() => {
    world.api.lines.length = 0;
    world.api.clock.advance(120);
  });

  test("cause at most sixty log lines a minute, and then one line with the number of omitted lines", async () => {
    world.fail = named("KnexTimeoutError");
    await failTimes(100);
    expect(faults()).toHaveLength(60);
    world.api.clock.advance(1);
    await failTimes(2);
    expect(faults()).toHaveLength(61);
    expect(faults().at(-1)?.left_out).toBe(40);
  });

  test("do not hide other faults or internal errors in the log", async () => {
    world.fail = named("KnexTimeoutError");
    await failTimes(70);
    world.fail = named("TimeoutError");
    await failTimes(1);
    expect(faults().at(-1)?.fault?.type).toBe("TimeoutError");
    world.fail = named("RangeError");
    await failTimes(70);
    expect(faults().filter(({ level }) => level === 50)).toHaveLength(70);
  });

  test("appear in the log once each, and not as a lost connection", async () => {
    const notices: Error[] = [];
    const onError = (error: Error) => notices.push(error);
    const db = openDatabase({ url: world.api.databaseUrl, name: "full", max: 1, onError });
    const held = await db.transaction();
    await expect(db.raw("select 1")).rejects.toThrow("Timeout acquiring a connection");
    await held.rollback();
    await db.destroy();
    expect(notices).toEqual([]);
  }, 15_000);
});

test("many callers who disconnect during their responses cannot flood the log", async () => {
  world.api.lines.length = 0;
  world.api.clock.advance(120);
  const { port } = new URL(world.api.url);
  for (let n = 0; n < 300; n += 1) {
    const { socket } = await connectRaw(Number(port), { send: "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n" });
    if (n % 2 === 0) await sleep(1);
    socket.resetAndDestroy();
  }
  await sleep(200);
  expect(world.api.lines.length).toBeLessThanOrEqual(60);
});
