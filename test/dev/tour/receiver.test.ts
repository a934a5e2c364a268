import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { type Receiver, startReceiver } from "../../../src/dev/tour/receiver.ts";

const FOREVER_MS = 2 ** 31 - 1;
let folder: string;
let receiver: Receiver;
let over: AbortController;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-receiver-"));
  over = new AbortController();
  const logFile = join(folder, "received.jsonl");
  receiver = await startReceiver({ logFile, clock: systemClock, interrupted: over.signal });
});

afterEach(async () => {
  await receiver.close();
  await rm(folder, { recursive: true, force: true });
});

test("an interruption rejects current and later calls of waitFor", async () => {
  const waiting = receiver.waitFor(() => true, FOREVER_MS);
  over.abort(new Error("interrupted"));
  await expect(waiting).rejects.toThrow("interrupted");
  await expect(receiver.waitFor(() => true, FOREVER_MS)).rejects.toThrow("interrupted");
});

test("waitFor rejects after its timeout", async () => {
  await expect(receiver.waitFor(() => true, 1)).rejects.toThrow("no such event was delivered within 0.001 s");
});
