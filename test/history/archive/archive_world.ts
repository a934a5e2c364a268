import { hash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { MANIFEST, type Manifest, manifestText } from "../../../src/history/archive/form.ts";
import { createHistoryCommands, type HistoryCommands } from "../../../src/history/archive/history_command.ts";
import { newIdAt } from "../../../src/ids.ts";
import type { DecisionItem } from "../../../src/proofs/decide/decision_item.ts";
import { receiptParts } from "../../../src/proofs/decide/decision_receipt.ts";
import { maintainPartitions } from "../../../src/proofs/decide/partitions.ts";
import { type DecisionWorld, decisionWorld } from "../../proofs/decision_world.ts";
import { itemFor, type Records } from "../../proofs/records.ts";
import { type SteeredClock, steeredClock } from "../../support/clock.ts";

export type Ended = { status: number; out: string; err: string };

/** A database with months of decisions, folders for archives, and the commands to archive and drop months. */
export type ArchiveWorld = DecisionWorld & {
  clock: SteeredClock;
  url(): string;
  /** The folder is deleted after the test file. */
  folder(): Promise<string>;
  /** Records a decision with its receipt, as verify does. Returns its id. */
  decide(records: Records, at: Date, changes?: Partial<DecisionItem>): Promise<string>;
  report(records: Records, eventId: string, at: Date): Promise<void>;
  call(work: (commands: HistoryCommands) => Promise<number>): Promise<Ended>;
  /** Archives a month into a new folder, and returns the folder of the archive. */
  archive(month: string): Promise<string>;
};

export function archiveWorld(): ArchiveWorld {
  const base = decisionWorld();
  const folders: string[] = [];
  const world = Object.assign(base, {
    url: (): string => base.db.client.config.connection.connectionString,
    clock: steeredClock(new Date("2026-04-10T00:00:00.000Z")),
    async folder() {
      const made = await mkdtemp(join(tmpdir(), "deputize-history-"));
      folders.push(made);
      return made;
    },
    async decide(records: Records, at: Date, changes: Partial<DecisionItem> = {}) {
      const eventId = newIdAt(at);
      const { connectionId, agentId, humanId, certId } = records;
      const { head, tail } = receiptParts({
        ...{ receiptId: eventId, connectionId, verifierId: connectionId, agentId, humanId, certId },
        ...{ requiredScope: "data:read", bundleHash: "0".repeat(64), verifiedAt: at },
      });
      const item = { eventId, decidedAt: at, receiptHead: head, receiptTail: tail, ...changes };
      await base.decideOne(itemFor(records, { challengeExpiresAt: addSeconds(at, 300), ...item }));
      return eventId;
    },
    async report({ accountId }: Records, eventId: string, at: Date) {
      await base.db("outcomes").insert({
        account_id: accountId,
        decided_at: at,
        event_id: eventId,
        outcome: "executed",
        detail: 'línea\u2028\n"x"',
        occurred_at: addSeconds(at, 1),
        recorded_at: addSeconds(at, 2),
      });
    },
    async call(work: (commands: HistoryCommands) => Promise<number>) {
      const said = { out: "", err: "" };
      const stream = (name: keyof typeof said) => ({
        write(text: string) {
          said[name] += text;
        },
      });
      const { clock } = world;
      const deps = { url: world.url, clock, out: stream("out"), err: stream("err") };
      return { status: await work(createHistoryCommands(deps)), ...said };
    },
    async archive(month: string) {
      const to = await world.folder();
      const { status, err } = await world.call((commands) => commands.archive({ month, to }));
      if (status !== 0) throw new Error(err);
      return join(to, month);
    },
  });
  beforeAll(async () => {
    for (const month of [0, 1, 2]) await maintainPartitions(base.pool, new Date(Date.UTC(2026, month, 15)));
  });
  afterAll(async () => {
    for (const folder of folders) await rm(folder, { recursive: true });
  });
  return world;
}

export async function rowsOf(folder: string, table: string): Promise<Record<string, unknown>[]> {
  const text = gunzipSync(await readFile(join(folder, `${table}.ndjson.gz`))).toString();
  return text === ""
    ? []
    : text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
}

export async function manifestIn(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, MANIFEST), "utf8"));
}

/** Changes a file of an archive, and updates its bytes and hash in the manifest. */
export async function forge(
  folder: string,
  table: string,
  change: (rows: Record<string, unknown>[]) => Record<string, unknown>[],
): Promise<void> {
  const rows = change(await rowsOf(folder, table));
  const bytes = gzipSync(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  await writeFile(join(folder, `${table}.ndjson.gz`), bytes);
  const manifest = await manifestIn(folder);
  const file = manifest.files.find((each) => each.table === table);
  if (file === undefined) throw new Error("no such file");
  Object.assign(file, { bytes: bytes.length, sha256: hash("sha256", bytes, "hex") });
  await writeFile(join(folder, MANIFEST), manifestText(manifest));
}
