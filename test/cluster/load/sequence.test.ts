import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Lines, openLines } from "../../soak/lines.ts";
import { checkSequence } from "./sequence.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-sequence-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/**
 * Checks a shop whose people decided on one, two and three in this order. `received` is the order of the
 * events.
 */
async function judge(received: string[], attempts = 1) {
  const write = async <Name extends keyof Lines>(name: Name, lines: Lines[Name][]) => {
    const file = openLines(folder, name);
    for (const line of lines) file.write(line);
    await file.close();
  };
  const ids = ["one", "two", "three"];
  await write(
    "appended",
    ids.map((id) => ({ id, kind: "event", of: "shop", outcome: "committed" })),
  );
  await write(
    "received",
    received.map((id, at) => ({ id, connectionId: "shop", deliveryId: id, at, status: 204, faults: [] })),
  );
  await write(
    "deliveries",
    ids.map((id) => ({ deliveryId: id, connectionId: "shop", state: "delivered", attempts, lost: [] })),
  );
  return checkSequence(folder);
}

test("checkSequence() finds no problem if events arrive in the order of the decisions", async () => {
  expect(await judge(["one", "two", "three"])).toEqual({ compared: 1, problems: [] });
});

test.each([
  ["two swapped events", ["one", "three", "two"], "number 2"],
  ["a missing last event", ["one", "two"], "number 3"],
  ["an additional last event", ["one", "two", "three", "one"], "number 4"],
])("checkSequence() finds %s", async (_, received, where) => {
  const { problems } = await judge(received);
  expect(problems).toEqual([expect.stringContaining(where)]);
});

test("checkSequence() skips a shop with a repeated delivery", async () => {
  expect(await judge(["two", "one", "three"], 2)).toEqual({ compared: 0, problems: [] });
});
