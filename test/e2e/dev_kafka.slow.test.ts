import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Database, openDatabase } from "../../src/db/database.ts";
import { KAFKA_VERSION, kafkaJars } from "../../src/dev/kafka/jars.ts";
import { answers } from "../../src/dev/kafka/nodes.ts";
import { startPostgres } from "../../src/dev/postgres/postgres.ts";
import { topics } from "../../src/events/kafka/settings.ts";
import { readTopic } from "../events/kafka/kafka_world.ts";
import { type DevRun, startDev, untilUp } from "../support/dev_stack.ts";
import { startKafka } from "../support/kafka.ts";
import { isRunning, killHard, until } from "../support/process.ts";

/** Each test continues from the state that the previous test left. */
const { missing, jars = "" } = await kafkaJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

let folder: string;
const running: DevRun[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-kafka-dev-"));
});
afterEach(() => Promise.all(running.splice(0).map(({ child }) => killHard(child))));
afterAll(() => rm(folder, { recursive: true, force: true }));

function start(args: string[], path?: string): DevRun {
  const run = startDev(folder, args, path);
  running.push(run);
  return run;
}

type Step = { step: string; ok: boolean; detail: string };

const stepsOf = ({ out }: { out: string }): Step[] =>
  out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

async function partOf(name: string): Promise<{ pid: number; port: number }> {
  const { parts } = JSON.parse(await readFile(join(folder, "run.json"), "utf8"));
  return { pid: parts[name].pid, port: parts[name].ports[0] ?? 0 };
}

async function onDatabase(work: (database: Database) => Promise<unknown>): Promise<void> {
  const postgres = await startPostgres({ dataDir: join(folder, "postgres", "data") });
  const url = postgres.superuserUrl("deputize");
  const database = openDatabase({ url, name: "test", onError: () => {} });
  try {
    await work(database);
  } finally {
    await database.destroy();
    await postgres.stop();
  }
}

test("npm start --kafka without Java names the package to install, and starts nothing", async () => {
  for (const json of [[], ["--json"]]) {
    const { said, exit } = start(["--kafka", ...json], "/nonexistent");
    expect(await exit).toBe(1);
    expect(said).toEqual({
      out: "",
      err:
        "--kafka needs Java 17 or newer (found none): apt-get install -y openjdk-17-jre-headless\n" +
        "Or start without --kafka; the worker then delivers events without Kafka\n",
    });
  }
  await expect(stat(join(folder, "version.json"))).rejects.toThrow("ENOENT");
});

describe.skipIf(missing !== undefined)("npm start with Java", () => {
  test("completes the tour over Kafka, with its events on the topic", async () => {
    const { said, exit } = start(["--kafka", "--once", "--json"]);
    expect([await exit, said.err]).toEqual([0, ""]);
    const steps = stepsOf(said);
    expect(steps.filter(({ ok }) => !ok)).toEqual([]);
    const names = steps.map(({ step }) => step).filter((name) => name !== "kafka_jars");
    expect(names.slice(0, 4)).toEqual(["postgres", "kafka", "schema", "keyvault"]);
    const options = { jars, path: process.env.PATH ?? "", folder: join(folder, "kafka") };
    const kafka = await startKafka(options);
    try {
      const settings = { brokers: kafka.brokers, prefix: "", partitions: 12, replication: 1 };
      const records = await readTopic(settings, topics.lifecycle, 3);
      expect(new Set(records.map(({ headers }) => headers.ce_type))).toEqual(
        new Set([
          "connection.created",
          "connection.key_created",
          "connection.removed",
          "delegation.approved",
          "delegation.revoked",
        ]),
      );
    } finally {
      await kafka.stop();
    }
  });

  test("without --kafka, refuses to start while events wait for Kafka, and prints the remedy", async () => {
    await onDatabase((database) =>
      database.raw(
        `insert into outbox (event_id, aggregatetype, aggregateid, aggregate_seq, type, schema_version, shard,
                             payload, headers, created_at)
         values (gen_random_uuid(), 'test', 'test', 1, 'test', 1, 0, '{}', '{}', now())`,
      ),
    );
    const { said, exit } = start(["--once"]);
    expect(await exit).toBe(1);
    expect(said.out).toMatch(/^FAIL Databases and their schema /m);
    expect(said.out).not.toContain("Worker");
    expect(said.err).toBe(
      "1 event of the last start, with --kafka, is not delivered yet\n" +
        "Start with --kafka again, wait a few seconds, and stop with Ctrl-C; then you can switch\n",
    );
    await onDatabase((database) => database("outbox").delete());
  });

  test("without --kafka, continues with the same data", async () => {
    const { said, exit } = start(["--once"]);
    expect([await exit, said.err]).toEqual([0, ""]);
    expect(said.out).not.toContain("Kafka");
    await onDatabase(async (database) => {
      expect(await database("event_way").pluck("way")).toEqual(["embedded"]);
      expect(await database("outbox")).toEqual([]);
    });
  });

  test("with --kafka again, keeps running, restarts a killed Kafka, and stops everything on Ctrl-C", async () => {
    const run = start(["--kafka"]);
    await untilUp(run);
    const { child, said, exit } = run;
    const [before, worker] = [await partOf("kafka"), await partOf("worker")];
    expect(said.out).toContain(`ok   Kafka ${KAFKA_VERSION} on 127.0.0.1:${before.port} `);
    process.kill(before.pid, "SIGKILL");
    await until("it is started again", async () => (await partOf("kafka")).pid !== before.pid, 60_000);
    const after = await partOf("kafka");
    expect([after.port, await partOf("worker")]).toEqual([before.port, worker]);
    await until("it takes connections", () => answers(after.port), 60_000);
    expect(said.err).toBe(
      `Kafka ${KAFKA_VERSION} on 127.0.0.1:${before.port} ended (SIGKILL); it is started again in 0.25 s\n`,
    );
    child.kill("SIGINT");
    expect(await exit).toBe(0);
    expect(isRunning(after.pid)).toBe(false);
  });
});
