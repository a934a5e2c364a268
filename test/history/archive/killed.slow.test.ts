import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { archivedTables, MANIFEST } from "../../../src/history/archive/form.ts";
import { insertRecords } from "../../proofs/records.ts";
import { archiveWorld } from "./archive_world.ts";

const world = archiveWorld();
const main = fileURLToPath(new URL("../../../src/main.ts", import.meta.url));
/** Number of rows to archive, which is not a multiple of the number of rows read at a time. */
const ROWS = 40_001;

async function run(to: string, during?: (kill: () => void, ended: () => boolean) => Promise<void>) {
  const child = spawn(process.execPath, [main, "history", "archive", "--month", "2026-01", "--to", to], {
    env: { PATH: process.env.PATH, DATABASE_URL: world.url() },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const isOver = () => child.exitCode !== null || child.signalCode !== null;
  await during?.(() => void child.kill("SIGKILL"), isOver);
  await ended;
  const [out, err] = (await said).map((chunks) => chunks.join(""));
  return { status: child.exitCode, out, err };
}

test("an archive run that is killed at any time leaves a complete archive or no archive, and the next run completes the archive", async () => {
  const { accountId } = await insertRecords(world.db, 0);
  await world.pool.query(
    `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision,
       decision_reason, receipt, receipt_hash)
     select $1, at, id, 'proof.verified', $1, 'a', 'allow', 'authorized', body, sha256(convert_to(body, 'UTF8'))
     from (
       select *, json_build_object('connection_id', $1::uuid, 'decision', 'allow', 'decision_reason', 'authorized',
                                   'receipt_id', id)::text as body
       from (select '2026-01-02'::timestamptz + n * interval '1 second' as at, gen_random_uuid() as id
             from generate_series(1, $2::int) n) as made
     ) as made`,
    [accountId, ROWS],
  );
  const to = await world.folder();
  const folder = join(to, "2026-01");
  const first = archivedTables[0]?.file ?? "";
  const stages = [
    ...[
      `${first}.unfinished`,
      "outcomes.ndjson.gz.unfinished",
      first,
      `${MANIFEST}.unfinished`,
      MANIFEST,
    ].map((name) => async (isOver: () => boolean) => {
      while (!existsSync(join(folder, name)) && !isOver()) await sleep(0);
    }),
    ...[0, 50, 100, 200, 400].map((ms) => async (isOver: () => boolean) => {
      while (!existsSync(join(folder, `${first}.unfinished`)) && !isOver()) await sleep(0);
      await sleep(ms);
    }),
  ];
  for (const stage of stages) {
    await run(to, async (kill, isOver) => {
      await stage(isOver);
      kill();
    });
    const { status, err } = await world.call((commands) => commands.check({ from: folder }));
    expect([status, err]).toEqual(
      existsSync(join(folder, MANIFEST)) ? [0, ""] : [1, expect.stringContaining("has no manifest.json")],
    );
    for (const { manifest_hash } of await world.db("history_archives")) {
      expect(existsSync(join(folder, MANIFEST)), manifest_hash.toString("hex")).toBe(true);
    }
  }
  const ended = await run(to);
  expect(ended).toMatchObject({ status: 0, err: "" });
  const manifest = await readFile(join(folder, MANIFEST));
  expect(JSON.parse(manifest.toString()).files).toMatchObject([{ rows: ROWS }, { rows: 0 }, { rows: 0 }]);
  const elsewhere = await world.folder();
  expect(await run(elsewhere)).toMatchObject({ status: 0 });
  expect(await readFile(join(elsewhere, "2026-01", MANIFEST))).toEqual(manifest);
  expect(await world.db("history_archives")).toHaveLength(1);
});

test("the check command needs no settings, and the archive command reports a missing setting", async () => {
  const folder = await world.archive("2026-02");
  const child = spawn(process.execPath, [main, "history", "check", "--from", folder, "--json"], {
    env: { PATH: process.env.PATH },
    stdio: ["ignore", "pipe", "inherit"],
  });
  expect(JSON.parse((await child.stdout.toArray()).join(""))).toMatchObject({
    month: "2026-02",
    receipts: 0,
  });
  const without = spawn(process.execPath, [main, "history", "archive", "--month", "2026-01", "--to", "a"], {
    env: { PATH: process.env.PATH },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const said = (await without.stderr.toArray()).join("");
  expect(said).toContain("DATABASE_URL");
});
