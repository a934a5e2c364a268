import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { RunningPostgres } from "../../../src/dev/postgres/postgres.ts";

const PAGE_BYTES = 8_192;
const PAGES = 2_048;
const RELOAD_MS = 300;

/** A file in the same place as the database, to measure only the disk sync of a commit. */
export type Disk = {
  /** Overwrites the file's next 8 KiB and syncs them to disk. */
  write(): Promise<void>;
  close(): Promise<void>;
};

/** Creates a file of 16 MiB, the size of a write-ahead log segment. */
export async function openDisk(file: string): Promise<Disk> {
  const handle = await open(file, "w");
  await handle.write(Buffer.alloc(PAGES * PAGE_BYTES));
  await handle.sync();
  let page = 0;
  return {
    async write() {
      page = (page + 1) % PAGES;
      await handle.write(Buffer.alloc(PAGE_BYTES, page), 0, PAGE_BYTES, page * PAGE_BYTES);
      await handle.datasync();
    },
    close: () => handle.close(),
  };
}

/** Makes Postgres sync to disk at every commit, as in production, or never. */
export async function waitForDisk(postgres: RunningPostgres, wait: boolean): Promise<void> {
  const admin = new pg.Client({ connectionString: postgres.superuserUrl("postgres") });
  await admin.connect();
  await admin.query(`alter SYSTEM set fsync = ${wait ? "on" : "off"}`);
  await admin.query("select pg_reload_conf()");
  await admin.end();
  await sleep(RELOAD_MS);
}
