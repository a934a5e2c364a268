import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openEventFile } from "../../../src/operator/folder/reports.ts";
import { aDelegation, NOW } from "../objects.ts";

describe("the event file", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-events-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const event = (message: string) => ({ type: "Normal", reason: "Active", message }) as const;
  const open = (path: string) => openEventFile(path, { clock: { now: () => NOW } });

  test("contains one line of JSON per event, in order", async () => {
    const path = join(folder, "status", "events.jsonl");
    const events = open(path);
    for (const message of ["first", "second\nline"]) events.record(aDelegation(), event(message));
    await events.flush();
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toEqual(
      ["first", "second\nline"].map((message) => ({
        time: NOW.toISOString(),
        object: "Delegation/default/loan",
        ...event(message),
      })),
    );
  });

  test("starts again at 1 MiB, and keeps one former file", async () => {
    const path = join(folder, "events.jsonl");
    await writeFile(path, "x".repeat(1024 * 1024));
    const events = open(path);
    events.record(aDelegation(), event("after"));
    await events.flush();
    expect((await stat(`${path}.1`)).size).toBe(1024 * 1024);
    expect(await readFile(path, "utf8")).toContain("after");
  });

  test("loses only the line that cannot be written", async () => {
    const events = open(join(folder, "events.jsonl", "impossible"));
    await writeFile(join(folder, "events.jsonl"), "");
    events.record(aDelegation(), event("lost"));
    await expect(events.flush()).resolves.toBeUndefined();
  });
});
