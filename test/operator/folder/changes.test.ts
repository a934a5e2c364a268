import { appendFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { stringify } from "yaml";
import { until } from "../../support/process.ts";
import { QUICK } from "./folders.ts";
import { platform, openFolderTest as test } from "./open_folder.ts";

describe("a folder of changing manifests", () => {
  test("refuses both declarations of an object that is declared twice, and keeps its former version", async ({
    world,
  }) => {
    await world.started("a.yaml", platform());
    await world.folders.write("b.yaml", platform("shop", { displayName: "Other shop" }));
    await until("both errors are reported", async () => (await world.folders.errors()).length === 2);
    expect((await world.folders.errors()).map(({ file }) => file).sort()).toEqual(["a.yaml", "b.yaml"]);
    await world.folders.write("a.yaml", platform("shop", { displayName: "Third shop" }));
    await world.quiet();
    expect(world.shop()).toMatchObject({ spec: { displayName: "Shop" }, metadata: { generation: 1 } });
    await world.folders.remove("b.yaml");
    await until("the only declaration is accepted", () => world.shop()?.spec.displayName === "Third shop");
  });

  test("accepts neither declaration of a new object that is declared twice", async ({ world }) => {
    await world.started("a.yaml", platform(), platform("shop", { displayName: "Other" }));
    expect(world.names()).toEqual([]);
    expect((await world.folders.errors()).map(({ document }) => document)).toEqual([1, 2]);
  });

  test("recognizes an object that moves to a different file", async ({ world }) => {
    await world.started("a.yaml", platform());
    const uid = world.shop()?.metadata.uid;
    await rename(join(world.folders.manifests, "a.yaml"), join(world.folders.manifests, "b.yaml"));
    await world.quiet();
    expect(world.shop()?.metadata).toMatchObject({ uid, generation: 1 });
    await world.folders.write("b.yaml", "kind: [");
    await until("the error is reported", async () => (await world.folders.errors()).length === 1);
    await world.quiet();
    expect(world.shop()?.metadata.uid).toBe(uid);
  });

  test("does not treat a file as deleted while an editor replaces it", async ({ world }) => {
    await world.started("shop.yaml", platform());
    const uid = world.shop()?.metadata.uid;
    for (let round = 0; round < 5; round += 1) {
      await rename(join(world.folders.manifests, "shop.yaml"), join(world.folders.manifests, "shop.yaml~"));
      await sleep(QUICK.missingMs / 4);
      await writeFile(join(world.folders.manifests, "shop.yaml"), "");
      await sleep(QUICK.quietMs / 3);
      await world.folders.write("shop.yaml", platform("shop", { displayName: `Round ${round}` }));
      await until(
        "the name of this round is accepted",
        () => world.shop()?.spec.displayName === `Round ${round}`,
      );
    }
    expect(world.shop()?.metadata.uid).toBe(uid);
  });

  test("never accepts a half-written file, even if its content is valid", async ({ world }) => {
    const text = stringify(platform("shop", { defaultAllowedScopes: ["data:read", "data:share"] }));
    await world.started("shop.yaml", text);
    const cut = text.lastIndexOf("    - data:share");
    await writeFile(join(world.folders.manifests, "shop.yaml"), text.slice(0, cut));
    for (let count = 0; count < 10; count += 1) {
      await sleep(QUICK.quietMs / 3);
      await appendFile(join(world.folders.manifests, "shop.yaml"), "# not yet\n");
    }
    await world.folders.write("shop.yaml", text);
    await world.quiet();
    expect(world.shop()?.spec.defaultAllowedScopes).toEqual(["data:read", "data:share"]);
    expect(world.shop()?.metadata.generation).toBe(1);
  });
});
