import { mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { StartError } from "../../../src/config.ts";
import { clusterIdOf, StateDamaged } from "../../../src/operator/folder/state_file.ts";
import { until } from "../../support/process.ts";
import { tenants } from "./folders.ts";
import { platform, openFolderTest as test } from "./open_folder.ts";

describe.concurrent("the records of a folder", () => {
  test("contain Secrets that only the owner of the files can read", async ({ world }) => {
    await world.resources.start();
    await world.resources.writeSecret({
      namespace: "default",
      name: "s",
      type: "t",
      labels: {},
      annotations: {},
      data: { a: "b" },
    });
    const path = join(world.folders.secrets, "default", "s.yaml");
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(world.folders.secrets, "default"))).mode & 0o777).toBe(0o700);
  });

  test("treat a file without a Secret as a Secret of a different owner", async ({ world }) => {
    await world.resources.start();
    await mkdir(join(world.folders.secrets, "default"), { recursive: true });
    await writeFile(join(world.folders.secrets, "default", "s.yaml"), "my shopping list");
    expect(await world.resources.readSecret("default", "s")).toMatchObject({ type: "", data: {} });
    const written = {
      namespace: "default",
      name: "s",
      type: "t",
      labels: {},
      annotations: {},
      data: { a: "b" },
    };
    expect(await world.resources.writeSecret(written)).toBe(false);
  });

  test("stay as they are if nothing changed", async ({ world }) => {
    await world.started("shop.yaml", platform(), tenants());
    await world.folders.write("broken.yaml", platform("broken", { colour: "red" }));
    await until("the broken manifest is reported", async () => (await world.folders.errors()).length === 1);
    const files = [
      "default/platform.shop.yaml",
      "default/platform.broken.yaml",
      "tenants.yaml",
      "errors.yaml",
    ];
    const stamps = () =>
      Promise.all(
        files.map(async (file) => {
          const { ino, mtimeMs } = await stat(join(world.folders.status, file));
          return `${ino} ${mtimeMs}`;
        }),
      );
    const before = await stamps();
    await world.folders.write("unrelated.yaml", "# nothing\n");
    await world.quiet();
    expect(await stamps()).toEqual(before);
  });

  test("prevent startup if one of them is damaged, with its path in the error", async ({ world }) => {
    await world.started("shop.yaml", platform());
    await world.resources.stop();
    const path = join(world.folders.status, "default", "platform.shop.yaml");
    for (const text of ["kind: [", "kind: Platform\nmetadata: {name: shop, uid: 7}\n", ""]) {
      await writeFile(path, text);
      await expect(world.folders.open()).rejects.toThrow(StateDamaged);
      await expect(world.folders.open()).rejects.toThrow(path);
    }
    await rm(path);
    world.resources = await world.folders.open();
    await world.resources.start();
    expect(world.names()).toEqual(["shop"]);
  });

  test("prevent startup if the record of bindings is damaged, until the record is removed", async ({
    world,
  }) => {
    await world.started("tenants.yaml", tenants());
    const before = world.resources.binding("default");
    expect(before?.account).toBeDefined();
    await world.resources.stop();
    const path = join(world.folders.status, "tenants.yaml");
    for (const text of ["data: [", "", "data: {}\n", "metadata: {annotations: {}}\ndata: {}\n"]) {
      await writeFile(path, text);
      const error: unknown = await world.folders.open().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StateDamaged);
      expect((error as Error).message).toContain(
        `${path} cannot be understood. It is the operator's record of which account`,
      );
      expect((error as Error).message).not.toContain("registered again");
    }
    await rm(path);
    world.resources = await world.folders.open();
    await world.resources.start();
    expect(world.resources.binding("default")).toEqual(before);
  });

  test("lose, at the next start, files that a crash left half-written", async ({ world }) => {
    await world.started("shop.yaml", platform());
    await writeFile(join(world.folders.status, "default", ".platform.shop.yaml.abc.unfinished"), "kind: Pl");
    await world.restart();
    expect(await readdir(join(world.folders.status, "default"))).toEqual(["platform.shop.yaml"]);
    expect(world.names()).toEqual(["shop"]);
  });

  test("contain one id per status folder, which never changes", async ({ world }) => {
    const path = join(world.folders.status, "cluster.yaml");
    const idOf = () => clusterIdOf(path, { hasObjects: false });
    const ids = await Promise.all([idOf(), idOf()]);
    expect(new Set([...ids, await idOf()]).size).toBe(1);
    expect(await clusterIdOf(path, { hasObjects: true })).toBe(ids[0]);
    for (const text of ["clusterID: ''\n", "", "clusterID: [\n"]) {
      await writeFile(path, text);
      await expect(idOf()).rejects.toThrow(StateDamaged);
      await expect(idOf()).rejects.toThrow(
        `${path} cannot be understood. It is the operator's identity, not an object's record`,
      );
    }
  });

  test("get no new id while they contain objects", async ({ world }) => {
    const path = join(world.folders.status, "cluster.yaml");
    const error: unknown = await clusterIdOf(path, { hasObjects: true }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StartError);
    expect((error as Error).message).toMatch(/^[^\n]*cluster\.yaml is missing[^\n]*restore it[^\n]*$/);
    await expect(stat(path)).rejects.toThrow("ENOENT");
  });
});
