import { spawn } from "node:child_process";
import { chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { isRunning, killHard, until } from "../support/process.ts";
import { postgresWorld } from "./postgres_world.ts";

const world = postgresWorld();
const { useMade, start, startElsewhere, query } = world;

describe("the server ends", () => {
  beforeEach(useMade);

  test("when it is stopped, and stopping twice is as good as once", async () => {
    const server = await start();
    await Promise.all([server.stop(), server.stop()]);
    await server.exited;
    expect(isRunning(server.pid)).toBe(false);
  });

  test("although a client is still in a transaction", async () => {
    const server = await start();
    const client = new Client({ connectionString: server.superuserUrl("postgres") });
    client.on("error", () => undefined);
    await client.connect();
    await client.query("begin");
    await server.stop();
    expect(isRunning(server.pid)).toBe(false);
  });

  test("when the process that started it is killed with no chance to say so", async () => {
    const { child, firstLine } = await startElsewhere();
    expect(isRunning(Number(firstLine))).toBe(true);
    await killHard(child);
    await until("the server is gone", () => !isRunning(Number(firstLine)));
  });
});

describe("after a kill -9", () => {
  beforeEach(useMade);

  test("of the server, the next start recovers what was committed", async () => {
    const first = await start();
    await query(first, "create table kept as select 42 as n");
    process.kill(first.pid, "SIGKILL");
    const second = await start();
    expect(await query(second, "select n from kept")).toEqual([[42]]);
  });

  test("of the starting process, an immediate start waits for the old server to let go", async () => {
    const { child } = await startElsewhere();
    await killHard(child);
    expect(await query(await start(), "select 1")).toEqual([[1]]);
  });

  test("of both, the lock file of the dead server does not stand in the way", async () => {
    const { child, firstLine } = await startElsewhere();
    process.kill(Number(firstLine), "SIGKILL");
    await killHard(child);
    expect(await query(await start(), "select 1")).toEqual([[1]]);
  });

  test("a lock file whose process id now belongs to another process does not stand in the way", async () => {
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
