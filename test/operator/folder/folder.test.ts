import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { mkdir, open, rename, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect } from "vitest";
import { until } from "../../support/process.ts";
import { tenants } from "./folders.ts";
import { platform, openFolderTest as test } from "./open_folder.ts";

/** Releases a reader that waits for a writer of a pipe. So a faulty reader does not outlive its test. */
async function releaseReaders(pipe: string): Promise<void> {
  const end = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  await end.close();
}

describe.concurrent("a folder of manifests", () => {
  test("reads files with several documents, files in subfolders, and both extensions", async ({ world }) => {
    await world.folders.write("team/more.yml", platform("c"));
    await world.started("both.yaml", "# only a comment\n", platform("a"), platform("b"));
    expect(world.names()).toEqual(["a", "b", "c"]);
    expect(await world.folders.errors()).toEqual([]);
  });

  test("skips hidden files and files that are not YAML", async ({ world }) => {
    await world.folders.write(".hidden.yaml", platform("a"));
    await world.folders.write(".git/b.yaml", platform("b"));
    await world.folders.write("notes.txt", "not: [yaml");
    await world.folders.write("platform.yaml~", platform("c"));
    await world.started("d.yaml", platform("d"));
    expect(world.names()).toEqual(["d"]);
  });

  test("follows links, because mounted ConfigMaps consist of links", async ({ world }) => {
    await mkdir(join(world.folders.manifests, "..data"));
    await world.folders.write("..data/shop.yaml", platform());
    await symlink("..data/shop.yaml", join(world.folders.manifests, "shop.yaml"));
    await world.resources.start();
    expect(world.names()).toEqual(["shop"]);
  });

  test("reports a broken link and reads the other files", async ({ world }) => {
    await symlink("nowhere.yaml", join(world.folders.manifests, "gone.yaml"));
    await world.started("shop.yaml", platform());
    expect(world.names()).toEqual(["shop"]);
    expect((await world.folders.errors()).map(({ file }) => file)).toEqual(["gone.yaml"]);
  });

  test("reports a pipe and a link to a device without reading them, and continues", async ({ world }) => {
    const pipe = join(world.folders.manifests, "pipe.yaml");
    await promisify(execFile)("mkfifo", [pipe]);
    await symlink("/dev/null", join(world.folders.manifests, "device.yaml"));
    try {
      await world.started("shop.yaml", platform());
      expect(await world.folders.errors()).toEqual([
        { file: "device.yaml", faults: ["is not a regular file"] },
        { file: "pipe.yaml", faults: ["is not a regular file"] },
      ]);
      await world.folders.write("more.yaml", platform("more"));
      await until("it continues", () => world.names().length === 2);
    } finally {
      await releaseReaders(pipe);
    }
  });

  test("keeps the objects of a file that was replaced by a pipe", async ({ world }) => {
    await world.started("shop.yaml", platform());
    await world.folders.remove("shop.yaml");
    const pipe = join(world.folders.manifests, "shop.yaml");
    await promisify(execFile)("mkfifo", [pipe]);
    try {
      await until("the pipe is reported", async () =>
        (await world.faults()).includes("is not a regular file"),
      );
      await world.quiet();
      expect(world.shop()?.metadata.deletionTimestamp).toBeUndefined();
    } finally {
      await releaseReaders(pipe);
    }
  });

  test("reads folders 16 levels deep, but with 17 levels, reports an unreadable folder and keeps all objects", async ({
    world,
  }) => {
    const deep = (depth: number) => `${"d/".repeat(depth)}deep.yaml`;
    await world.started(deep(16), platform());
    expect(world.names()).toEqual(["shop"]);
    await world.folders.write(deep(17), platform("deeper"));
    await until("the depth is reported", async () =>
      (await world.faults()).includes("the folder cannot be read (more than 16 folders deep)"),
    );
    await world.quiet();
    expect(world.names()).toEqual(["shop"]);
  });

  test("keeps all objects while the folder is missing, and continues when it is back", async ({ world }) => {
    await world.started("shop.yaml", platform());
    const uid = world.shop()?.metadata.uid;
    await rename(world.folders.manifests, `${world.folders.manifests}.away`);
    await until("the missing folder is reported", async () =>
      (await world.faults()).some((text) => text.includes("ENOENT")),
    );
    await world.quiet();
    expect(world.shop()?.metadata).toMatchObject({ uid });
    await world.restart();
    expect(world.shop()?.metadata).toMatchObject({ uid });
    await rename(`${world.folders.manifests}.away`, world.folders.manifests);
    await world.folders.write("more.yaml", platform("more"));
    await until("it continues", () => world.names().length === 2);
    await until("the error is gone", async () => (await world.folders.errors()).length === 0);
  });

  test("deletes objects whose manifest was removed while the operator was stopped", async ({ world }) => {
    await world.started("shop.yaml", platform());
    await world.resources.stop();
    await world.folders.remove("shop.yaml");
    world.resources = await world.folders.open();
    await world.resources.start();
    expect(world.shop()).toBeUndefined();
    expect(await world.folders.state("Platform", "shop")).toBeUndefined();
  });

  test("keeps the last binding while the binding's file is unreadable, even after a restart", async ({
    world,
  }) => {
    await world.started("tenants.yaml", tenants());
    expect(world.resources.binding("default")?.account).toBeDefined();
    await world.folders.write("tenants.yaml", "data: [");
    await until("the error is reported", async () => (await world.folders.errors()).length === 1);
    expect(world.resources.binding("default")?.account).toBeDefined();
    await world.restart();
    expect(world.resources.binding("default")?.account).toBeDefined();
    await world.folders.remove("tenants.yaml");
    await until("the binding is gone", () => world.resources.binding("default") === undefined);
  });

  test("keeps the last binding of a namespace while the folder declares two bindings", async ({ world }) => {
    await world.started("tenants.yaml", tenants());
    await world.folders.write("other.yaml", tenants({ default: "accountEmail: other@example.test" }));
    await until("both errors are reported", async () => (await world.folders.errors()).length === 2);
    expect(world.resources.binding("default")?.account?.accountEmail).toBe("owner@example.test");
  });
});
