import { execFileSync } from "node:child_process";
import { chmod, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { reasonOf } from "../../../src/dev/postgres/data.ts";
import { describeError } from "../../../src/dev/user_error.ts";
import { postgresWorld } from "../postgres_world.ts";

const world = postgresWorld();
const { useMade, start, query, refusal } = world;

describe("a new folder", () => {
  test("becomes a database that checks its pages and waits for the disk", async () => {
    const server = await start();
    expect(await query(server, "SHOW data_checksums")).toEqual([["on"]]);
    expect(await query(server, "SHOW synchronous_commit")).toEqual([["on"]]);
    expect(await query(server, "SHOW fsync")).toEqual([["on"]]);
    expect(await query(server, "SHOW listen_addresses")).toEqual([["127.0.0.1"]]);
    expect(await query(server, "SHOW unix_socket_directories")).toEqual([[""]]);
  });

  test("takes nobody without the password", async () => {
    const server = await start();
    const url = new URL(server.superuserUrl("postgres"));
    url.password = "postgres";
    const client = new Client({ connectionString: url.href });
    await expect(client.connect()).rejects.toMatchObject({ code: "28P01" });
    expect(await query(server, "select distinct auth_method from pg_hba_file_rules")).toEqual([
      ["scram-sha-256"],
    ]);
  });

  test("keeps the password out of the log, in a file only its owner reads", async () => {
    const server = await start();
    const password = decodeURIComponent(new URL(server.superuserUrl("postgres")).password);
    expect(password.length).toBeGreaterThanOrEqual(32);
    expect((await stat(`${world.dataDir}.password`)).mode & 0o777).toBe(0o600);
    expect(await readFile(`${world.dataDir}.log`, "utf8")).not.toContain(password);
  });

  test("leaves nothing but data, password and log", async () => {
    await start();
    expect((await readdir(join(world.folder, "state"))).sort()).toEqual([
      "postgres",
      "postgres.log",
      "postgres.password",
    ]);
  });

  test("can be below a folder that the server's own user cannot enter", async () => {
    await chmod(world.folder, 0o700);
    await mkdir(join(world.folder, "state"), { mode: 0o700 });
    const server = await start();
    expect(await query(server, "select rolname from pg_roles where rolsuper")).toEqual([["postgres"]]);
  });
});

describe("a new folder where none can be made", () => {
  const mayMount = process.platform === "linux" && process.getuid?.() === 0;
  if (!mayMount) console.warn("SKIPPED: file systems that are read-only or full need Linux and root");
  let disk: string;

  async function mount(options: string): Promise<void> {
    disk = join(world.folder, "state");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);
  }

  afterEach(() => mayMount && execFileSync("umount", [disk]));

  test.skipIf(!mayMount)("because the disk is full is refused with Postgres's own reason", async () => {
    await mount("size=16m");
    const { message } = await refusal();
    expect(message).toMatch(/^Postgres could not create .*: .*No space left on device/);
    expect(message).not.toContain("\n");
    expect((await readdir(disk)).filter((name) => name.includes("partial"))).toEqual([]);
  });

  test.skipIf(!mayMount)("because the file system is read-only is refused naming it", async () => {
    await mount("ro");
    const thrown: unknown = await start().catch((error: unknown) => error);
    expect(describeError(thrown)[0]).toBe(
      `${world.dataDir}.partial-${process.pid} cannot be used: its file system is read-only`,
    );
  });
});

describe("what initdb says when it fails", () => {
  test.each([
    [
      "a FATAL line",
      'running bootstrap script ... 2026-01-01 00:00:00.000 UTC [7] FATAL:  could not write to file "pg_wal/x": No space left on device\nchild process exited with exit code 1\ninitdb: removing contents of data directory "/x"\n',
      'could not write to file "pg_wal/x": No space left on device',
    ],
    [
      "an error line",
      'initdb: error: could not change permissions of directory "/x": Operation not permitted\ninitdb: hint: try again\n',
      'could not change permissions of directory "/x": Operation not permitted',
    ],
    [
      "a line of the system",
      "/x/initdb: cannot write: No space left on device\nremoving contents\n",
      "/x/initdb: cannot write: No space left on device",
    ],
    ["only one line", "Segmentation fault\n", "Segmentation fault"],
    ["nothing", "", "it ended without a message"],
  ])("is told by %s", (_, complaint, reason) => {
    expect(reasonOf(complaint)).toBe(reason);
  });
});

describe("a folder that was there before", () => {
  beforeEach(useMade);

  test("still has its rows and its password", async () => {
    const first = await start();
    await query(first, "create table kept as select 42 as n");
    await first.stop();
    const second = await start();
    expect(await query(second, "select n from kept")).toEqual([[42]]);
  });

  test("is refused when it is half written", async () => {
    await rm(join(world.dataDir, "global", "pg_control"));
    expect((await refusal()).message).toContain("not a complete Postgres data folder");
    await expect(readdir(world.dataDir)).resolves.toContain("base");
  });

  test("is refused when it holds something else", async () => {
    await rm(world.dataDir, { recursive: true });
    await mkdir(world.dataDir);
    await writeFile(join(world.dataDir, "notes.txt"), "mine");
    expect((await refusal()).message).toContain("not a complete Postgres data folder");
    await expect(readFile(join(world.dataDir, "notes.txt"), "utf8")).resolves.toBe("mine");
  });

  test("is refused when another major version wrote it", async () => {
    await writeFile(join(world.dataDir, "PG_VERSION"), "17\n");
    expect((await refusal()).message).toMatch(/written by Postgres 17, this is Postgres 18/);
  });

  test.each(["", "\n", "eighteen", "18.4", "-1", "18 17"])(
    "is refused when its version is no number (%j)",
    async (version) => {
      await writeFile(join(world.dataDir, "PG_VERSION"), version);
      const { message, remedy } = await refusal();
      expect(message).toBe(`${world.dataDir} is not a complete Postgres data folder`);
      expect(remedy).toContain("start afresh");
    },
  );

  test("is refused when its password is lost", async () => {
    await rm(`${world.dataDir}.password`);
    expect((await refusal()).message).toContain("password file");
  });

  test("is refused when its password is another one, and no server stays behind", async () => {
    await writeFile(`${world.dataDir}.password`, "wrong\n");
    expect((await refusal()).message).toContain("refused its own superuser");
    await expect(stat(join(world.dataDir, "postmaster.pid"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("is refused while another server runs on it, which is left alone", async () => {
    const other = await start();
    expect((await refusal()).message).toContain("in use by another Postgres");
    expect(await query(other, "select 1")).toEqual([[1]]);
  });

  test("replaces what an interrupted creation left behind", async () => {
    await rm(world.dataDir, { recursive: true });
    await mkdir(`${world.dataDir}.partial-999999999`);
    await writeFile(`${world.dataDir}.password`, "of the interrupted one\n");
    await start();
    expect(await readdir(join(world.folder, "state"))).not.toContain("postgres.partial-999999999");
  });
});

describe("a port", () => {
  beforeEach(useMade);

  test("in use is named in the refusal", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    await expect(start({ port })).rejects.toThrow(`Port ${port} on 127.0.0.1 is in use`);
    await new Promise((resolve) => taken.close(resolve));
    await expect(start({ port })).resolves.toMatchObject({ port });
  });
});
