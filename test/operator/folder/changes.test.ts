import { appendFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { until } from "../../support/process.ts";
import { QUICK } from "./folders.ts";
import { openFolderEach, platform } from "./open_folder.ts";

describe("a folder of manifests that change", () => {
  const world = openFolderEach();
  const { started, names, shop, quiet } = world;

  test("refuses an object that is declared twice, in every place, and keeps what is there", async () => {
    await started("a.yaml", platform());
    await world.folders.write("b.yaml", platform("shop", { displayName: "Other shop" }));
    await until("it is told", async () => (await world.folders.errors()).length === 2);
    expect((await world.folders.errors()).map(({ file }) => file).sort()).toEqual(["a.yaml", "b.yaml"]);
    await world.folders.write("a.yaml", platform("shop", { displayName: "Third shop" }));
    await quiet();
    expect(shop()).toMatchObject({ spec: { displayName: "Shop" }, metadata: { generation: 1 } });
    await world.folders.remove("b.yaml");
    await until("the only one holds", () => shop()?.spec.displayName === "Third shop");
  });

  test("takes neither of two declarations of a new object", async () => {
    await started("a.yaml", platform(), platform("shop", { displayName: "Other" }));
    expect(names()).toEqual([]);
    expect((await world.folders.errors()).map(({ document }) => document)).toEqual([1, 2]);
  });

  test("knows an object again that moves to another file", async () => {
    await started("a.yaml", platform());
    const uid = shop()?.metadata.uid;
    await rename(join(world.folders.manifests, "a.yaml"), join(world.folders.manifests, "b.yaml"));
    await quiet();
    expect(shop()?.metadata).toMatchObject({ uid, generation: 1 });
    await world.folders.write("b.yaml", "kind: [");
    await until("it is told", async () => (await world.folders.errors()).length === 1);
    await quiet();
    expect(shop()?.metadata.uid).toBe(uid);
  });

  test("does not take an editor's replacing of a file for a deletion", async () => {
    await started("shop.yaml", platform());
    const uid = shop()?.metadata.uid;
    for (let round = 0; round < 5; round += 1) {
      await rename(join(world.folders.manifests, "shop.yaml"), join(world.folders.manifests, "shop.yaml~"));
      await sleep(QUICK.missingMs / 4);
      await writeFile(join(world.folders.manifests, "shop.yaml"), "");
      await sleep(QUICK.quietMs / 3);
      await world.folders.write("shop.yaml", platform("shop", { displayName: `Round ${round}` }));
      await until("the round's name is there", () => shop()?.spec.displayName === `Round ${round}`);
    }
    expect(shop()?.metadata.uid).toBe(uid);
  });

  test("never takes a half-written file, even one that would be valid", async () => {
    const text = stringify(platform("shop", { defaultAllowedScopes: ["data:read", "data:share"] }));
    await started("shop.yaml", text);
    const cut = text.lastIndexOf("    - data:share");
    await writeFile(join(world.folders.manifests, "shop.yaml"), text.slice(0, cut));
    for (let count = 0; count < 10; count += 1) {
      await sleep(QUICK.quietMs / 3);
      await appendFile(join(world.folders.manifests, "shop.yaml"), "# not yet\n");
    }
    await world.folders.write("shop.yaml", text);
    await quiet();
    expect(shop()?.spec.defaultAllowedScopes).toEqual(["data:read", "data:share"]);
    expect(shop()?.metadata.generation).toBe(1);
  });
});
