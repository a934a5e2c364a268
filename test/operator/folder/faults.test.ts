import { readdir } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { MAX_FILE_BYTES } from "../../../src/operator/folder/documents.ts";
import { until } from "../../support/process.ts";
import { openFolderEach, platform } from "./open_folder.ts";

describe("a folder of manifests with faults", () => {
  const world = openFolderEach();
  const { started, restart, names, shop, faults, quiet } = world;

  test.each([
    ["an unknown field", { colour: "red" }, "spec.colour: unknown field"],
    ["a wrong type", { suspend: "perhaps" }, "spec.suspend: must be boolean"],
    ["a broken rule", { keyRotation: { every: "1m" } }, "every is a duration of at least 1h"],
  ])("refuses a new object with %s, in a status of its own", async (_, spec, fault) => {
    await started("shop.yaml", platform("shop", spec));
    expect(names()).toEqual([]);
    const state = await world.folders.state("Platform", "shop");
    expect(state?.metadata.uid).toBeUndefined();
    const ready = state?.status?.conditions?.find(({ type }) => type === "Ready");
    expect(ready).toMatchObject({ status: "False", reason: "InvalidSpec" });
    expect(ready?.message).toContain(fault);
    expect(await world.folders.errors()).toMatchObject([
      { file: "shop.yaml", document: 1, object: "Platform/default/shop" },
    ]);
  });

  test("takes the object once its manifest is mended", async () => {
    await started("shop.yaml", platform("shop", { colour: "red" }));
    await world.folders.write("shop.yaml", platform());
    await until("it is taken", () => shop() !== undefined);
    expect((await world.folders.state("Platform", "shop"))?.metadata.uid).toBe(shop()?.metadata.uid);
    await until("the error is gone", async () => (await world.folders.errors()).length === 0);
  });

  test("forgets the refusal of a manifest that is taken away", async () => {
    await started("shop.yaml", platform("shop", { colour: "red" }));
    await world.folders.remove("shop.yaml");
    await until("it is forgotten", async () => (await world.folders.state("Platform", "shop")) === undefined);
  });

  test("keeps an object whose manifest is refused, and says so until it is mended", async () => {
    await started("shop.yaml", platform());
    const before = shop();
    await world.folders.write("shop.yaml", platform("shop", { surfaceType: "meetings" }));
    await until("it is told", async () => shop()?.status.conditions?.[0]?.type === "Accepted");
    expect(shop()?.status.conditions?.[0]).toMatchObject({ status: "False", reason: "InvalidSpec" });
    expect(shop()?.status.conditions?.[0]?.message).toContain("surfaceType is immutable");
    expect(shop()).toMatchObject({
      spec: before?.spec,
      metadata: { uid: before?.metadata.uid, generation: 1 },
    });
    await restart();
    expect(shop()?.spec).toEqual(before?.spec);
    await world.folders.write("shop.yaml", platform());
    await until("it is mended", () => shop()?.status.conditions?.length === 0);
    expect(shop()?.metadata.generation).toBe(1);
  });

  test("compares a change with the last accepted version, also after a restart", async () => {
    await started("shop.yaml", platform());
    await world.folders.write("shop.yaml", platform("shop", { defaultAllowedScopes: ["data:read"] }));
    await until("the ceiling shrank", () => shop()?.metadata.generation === 2);
    await restart();
    await world.folders.write("shop.yaml", platform());
    await until("widening is refused", async () => (await world.folders.errors()).length === 1);
    expect(shop()?.spec.defaultAllowedScopes).toEqual(["data:read"]);
  });

  test("keeps what the operator said when it notes a refusal, and notes it beside", async () => {
    await started("shop.yaml", platform());
    const ready = {
      type: "Ready",
      status: "True" as const,
      reason: "Active",
      message: "",
      observedGeneration: 1,
      lastTransitionTime: "2026-01-01T00:00:00.000Z",
    };
    const object = shop();
    if (object === undefined) throw new Error("not there");
    await world.resources.writeStatus(object, { observedGeneration: 1, conditions: [ready] });
    await world.folders.write("shop.yaml", platform("shop", { colour: "red" }));
    const types = () =>
      shop()
        ?.status.conditions?.map(({ type }) => type)
        .sort();
    await until("it is told", () => types()?.length === 2);
    expect(types()).toEqual(["Accepted", "Ready"]);
    await world.resources.writeStatus(object, {
      observedGeneration: 1,
      conditions: [{ ...ready, message: "again" }],
    });
    expect(types()).toEqual(["Accepted", "Ready"]);
  });

  describe("syntax", () => {
    test.each([
      ["an open bracket", "kind: [Platform\n"],
      ["a key twice", "kind: Platform\nkind: Platform\n"],
      ["a tab", "a:\n\tb: 1\n"],
      [
        "an alias bomb",
        `a: &a [x,x,x,x,x,x,x,x,x,x]\n${[..."bcdefgh"].map((name, index) => `${name}: &${name} [${Array(10).fill(`*${"abcdefgh"[index]}`).join(",")}]`).join("\n")}\n`,
      ],
      ["too many bytes", `# ${"x".repeat(MAX_FILE_BYTES)}\n`],
    ])("%s makes the file faulty and keeps its objects", async (_, text) => {
      await started("shop.yaml", platform());
      await world.folders.write("shop.yaml", text);
      await until("it is told", async () => (await world.folders.errors()).length === 1);
      expect(await world.folders.errors()).toMatchObject([{ file: "shop.yaml" }]);
      await quiet();
      expect(shop()?.metadata.deletionTimestamp).toBeUndefined();
      await restart();
      expect(shop()?.spec).toEqual(platform().spec);
    });

    test.each([
      ["a misspelt kind", { ...platform(), kind: "Platfrom" }, "is not a kind of"],
      ["a misspelt group", { ...platform(), apiVersion: "deputise.io/v1alpha1" }, "is not a kind of"],
      ["no name", { ...platform(), metadata: {} }, "metadata.name"],
      ["a name that climbs", { ...platform(), metadata: { name: "../../etc" } }, "metadata.name"],
      [
        "a namespace that climbs",
        { ...platform(), metadata: { name: "shop", namespace: ".." } },
        "namespace",
      ],
      ["a list", [platform()], "not an object"],
    ])("%s is reported and keeps the object it may have meant", async (_, document, fault) => {
      await started("shop.yaml", platform());
      await world.folders.write("shop.yaml", document);
      await until("it is told", async () => (await faults()).some((text) => text.includes(fault)));
      await quiet();
      expect(shop()?.metadata.deletionTimestamp).toBeUndefined();
      expect(await readdir(world.folders.root)).toEqual(["manifests", "secrets", "status"]);
    });

    test("a foreign object in the file keeps no other object from being deleted", async () => {
      const foreign = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "other" } };
      await started("shop.yaml", platform(), foreign);
      await world.folders.write("shop.yaml", foreign);
      await until("it is gone", () => shop() === undefined);
      expect(await faults()).toEqual(["apps/v1 Deployment is not a kind of deputize.io/v1alpha1"]);
    });
  });
});
