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
const { useTemplate, start, query, refusal } = world;

describe("a new data folder", () => {
  test("becomes a database with page checksums and synchronous commits", async () => {
    const server = await start();
    expect(await query(server, "SHOW data_checksums")).toEqual([["on"]]);
    expect(await query(server, "SHOW synchronous_commit")).toEqual([["on"]]);
    expect(await query(server, "SHOW fsync")).toEqual([["on"]]);
    expect(await query(server, "SHOW listen_addresses")).toEqual([["127.0.0.1"]]);
    expect(await query(server, "SHOW unix_socket_directories")).toEqual([[""]]);
  });

  test("rejects a connection without the password", async () => {
    const server = await start();
    const url = new URL(server.superuserUrl("postgres"));
    url.password = "postgres";
    const client = new Client({ connectionString: url.href });
    await expect(client.connect()).rejects.toMatchObject({ code: "28P01" });
    expect(await query(server, "select distinct auth_method from pg_hba_file_rules")).toEqual([
      ["scram-sha-256"],
    ]);
  });

  test("stores the password in a file that only its owner can read, and not in the log", async () => {
    const server = await start();
    const password = decodeURIComponent(new URL(server.superuserUrl("postgres")).password);
    expect(password.length).toBeGreaterThanOrEqual(32);
    expect((await stat(`${world.dataDir}.password`)).mode & 0o777).toBe(0o600);
    expect(await readFile(`${world.dataDir}.log`, "utf8")).not.toContain(password);
  });

  test("contains only data, password and log", async () => {
    await start();
    expect((await readdir(join(world.folder, "state"))).sort()).toEqual([
      "postgres",
      "postgres.log",
      "postgres.password",
    ]);
  });

  test("may be inside a folder that the server's user cannot enter", async () => {
    await chmod(world.folder, 0o700);
    await mkdir(join(world.folder, "state"), { mode: 0o700 });
    const server = await start();
    expect(await query(server, "select rolname from pg_roles where rolsuper")).toEqual([["postgres"]]);
  });
});

describe("a new data folder that cannot be created", () => {
  const mayMount = process.platform === "linux" && process.getuid?.() === 0;
  if (!mayMount) console.warn("SKIPPED: file systems that are read-only or full need Linux and root");
  let disk: string;

  async function mount(options: string): Promise<void> {
    disk = join(world.folder, "state");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", disk]);
  }

  afterEach(() => mayMount && execFileSync("umount", ["--lazy", disk]));

  test.skipIf(!mayMount)("leads to Postgres's own error message if the disk is full", async () => {
    await mount("size=16m");
    const { message } = await refusal();
    expect(message).toMatch(/^Postgres could not create .*: .*No space left on device/);
    expect(message).not.toContain("\n");
    expect((await readdir(disk)).filter((name) => name.includes("partial"))).toEqual([]);
  });

  test.skipIf(!mayMount)(
    "leads to an error message with its path if the file system is read-only",
    async () => {
      await mount("ro");
      const thrown: unknown = await start().catch((error: unknown) => error);
      expect(describeError(thrown)[0]).toBe(
        `${world.dataDir}.partial-${process.pid} cannot be used: its file system is read-only`,
      );
    },
  );
});

describe("the reported reason for a failed initdb", () => {
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
      "a line about a full disk",
      "/x/initdb: cannot write: No space left on device\nremoving contents\n",
      "/x/initdb: cannot write: No space left on device",
    ],
    ["the only line", "Segmentation fault\n", "Segmentation fault"],
    ["a fixed message if initdb printed nothing", "", "it ended without a message"],
  ])("comes from %s", (_, complaint, reason) => {
    expect(reasonOf(complaint)).toBe(reason);
  });
});

describe("an existing data folder", () => {
  beforeEach(useTemplate);

  test("keeps its rows and its password", async () => {
    const first = await start();
    await query(first, "create table kept as select 42 as n");
    await first.stop();
    const second = await start();
    expect(await query(second, "select n from kept")).toEqual([[42]]);
  });

  test("cannot be opened if it is incomplete", async () => {
    await rm(join(world.dataDir, "global", "pg_control"));
    expect((await refusal()).message).toContain("not a complete Postgres data folder");
    await expect(readdir(world.dataDir)).resolves.toContain("base");
  });

  test("cannot be opened if it contains something other than a database", async () => {
    await rm(world.dataDir, { recursive: true });
    await mkdir(world.dataDir);
    await writeFile(join(world.dataDir, "notes.txt"), "mine");
    expect((await refusal()).message).toContain("not a complete Postgres data folder");
    await expect(readFile(join(world.dataDir, "notes.txt"), "utf8")).resolves.toBe("mine");
  });

  test("cannot be opened if another major version wrote it", async () => {
    await writeFile(join(world.dataDir, "PG_VERSION"), "17\n");
    expect((await refusal()).message).toMatch(/written by Postgres 17, this is Postgres 18/);
  });

  test.each(["", "\n", "eighteen", "18.4", "-1", "18 17"])(
    "cannot be opened if its version is not a number (%j)",
    async (version) => {
      await writeFile(join(world.dataDir, "PG_VERSION"), version);
      const { message, remedy } = await refusal();
      expect(message).toBe(`${world.dataDir} is not a complete Postgres data folder`);
      expect(remedy).toContain("start afresh");
    },
  );

  test("cannot be opened without its password file", async () => {
    await rm(`${world.dataDir}.password`);
    expect((await refusal()).message).toContain("password file");
  });

  test("cannot be opened with a wrong password, and no server keeps running", async () => {
    await writeFile(`${world.dataDir}.password`, "wrong\n");
    expect((await refusal()).message).toContain("refused its own superuser");
    await expect(stat(join(world.dataDir, "postmaster.pid"))).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("cannot be opened while another server uses it, and that server keeps running", async () => {
    const other = await start();
    expect((await refusal()).message).toContain("in use by another Postgres");
    expect(await query(other, "select 1")).toEqual([[1]]);
  });

  test("can be created again if its creation was interrupted", async () => {
    await rm(world.dataDir, { recursive: true });
    await mkdir(`${world.dataDir}.partial-999999999`);
    await writeFile(`${world.dataDir}.password`, "of the interrupted one\n");
    await start();
    expect(await readdir(join(world.folder, "state"))).not.toContain("postgres.partial-999999999");
  });
});

describe("a Postgres port in use", () => {
  beforeEach(useTemplate);

  test("appears in the error message", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    await expect(start({ port })).rejects.toThrow(`Port ${port} on 127.0.0.1 is in use`);
    await new Promise((resolve) => taken.close(resolve));
    await expect(start({ port })).resolves.toMatchObject({ port });
  });
});
