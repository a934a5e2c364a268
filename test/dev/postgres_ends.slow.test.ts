import { spawn } from "node:child_process";
import { chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { isRunning, killHard, until } from "../support/process.ts";
import { postgresWorld } from "./postgres_world.ts";

const world = postgresWorld();
const { useTemplate, start, startElsewhere, query } = world;

describe("the Postgres server", () => {
  beforeEach(useTemplate);

  test("stops when stop is called twice concurrently", async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    await server.exited;
    expect(isRunning(server.pid)).toBe(false);
  });

  test("stops although a client has an open transaction", async () => {
    const server = await start();
    const client = new Client({ connectionString: server.superuserUrl("postgres") });
    client.on("error", () => undefined);
    await client.connect();
    await client.query("begin");
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
  });

  test("exits when the process that started it is killed", async () => {
    const { child, firstLine } = await startElsewhere();
    expect(isRunning(Number(firstLine))).toBe(true);
    await killHard(child);
    await until("the server has ended", () => !isRunning(Number(firstLine)));
  });
});

describe("after a kill -9, the next start of Postgres", () => {
  beforeEach(useTemplate);

  test("recovers committed data if the server was killed", async () => {
    const first = await start();
    await query(first, "create table kept as select 42 as n");
    process.kill(first.pid, "SIGKILL");
    const second = await start();
    expect(await query(second, "select n from kept")).toEqual([[42]]);
  });

  test("waits until the old server has exited if only its parent was killed", async () => {
    const { child } = await startElsewhere();
    await killHard(child);
    expect(await query(await start(), "select 1")).toEqual([[1]]);
  });

  test("ignores the dead server's lock file if both server and parent were killed", async () => {
    const { child, firstLine } = await startElsewhere();
    process.kill(Number(firstLine), "SIGKILL");
    await killHard(child);
    expect(await query(await start(), "select 1")).toEqual([[1]]);
  });

  test("ignores a lock file whose process ID now belongs to another process", async () => {
    const { uid, gid } = await stat(world.dataDir);
    const stranger = spawn("sleep", ["60"], { uid, gid, stdio: "ignore" });
    const lockFile = join(world.dataDir, "postmaster.pid");
    const lines = [
      stranger.pid,
      "/proc/self/cwd",
      1700000000,
      5432,
      "",
      "127.0.0.1",
      "  1  99999999",
      "ready",
    ];
    await writeFile(lockFile, `${lines.join("\n")}\n`);
    await chown(lockFile, uid, gid);
    expect(await query(await start(), "select 1")).toEqual([[1]]);
    await killHard(stranger);
  });
});
