import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { kafkaJars } from "../../src/dev/kafka/jars.ts";
import { printedSeed } from "../events/support/load.ts";
import { described, soak } from "./soak.ts";

/* `npm run soak` goes on for half an hour. */
const SECONDS = Number(process.env.SOAK_SECONDS ?? 180);
const { missing } = await kafkaJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("everything that carries events", () => {
  test("loses, invents and doubles nothing while brokers, workers and Postgres are broken", async () => {
    const folder = await mkdtemp(join(tmpdir(), "deputize-soak-"));
    const say = (line: string) => console.log(line);
    const report = await soak({ folder, seed: printedSeed(), seconds: SECONDS, say });
    for (const line of described(report)) say(line);
    expect(report.problems).toEqual([]);
    expect(report.mostExtraRequests).toBeLessThanOrEqual(
      Object.values(report.faults).reduce((a, b) => a + b, 0),
    );
    expect(report.events).toBeGreaterThan(SECONDS);
    expect(report.decisions).toBeGreaterThan(SECONDS / 10);
    expect(report.poison).toBeGreaterThan(0);
    expect(report.orderedConnections).toBeGreaterThan(0);
    expect(report.orderedAccounts).toBeGreaterThan(0);
    expect(report.faults["Postgres stopped immediately"]).toBeGreaterThanOrEqual(Math.min(10, SECONDS / 18));
    await rm(folder, { recursive: true, force: true });
  }, 1_800_000);
});
