import { readdir } from "node:fs/promises";
import { describe, expect } from "vitest";
import { MAX_FILE_BYTES } from "../../../src/operator/folder/documents.ts";
import { until } from "../../support/process.ts";
import { platform, openFolderTest as test } from "./open_folder.ts";

describe.concurrent("a folder with faulty manifests", () => {
  test.for([
    ["an unknown field", { colour: "red" }, "spec.colour: unknown field"],
    ["a wrong type", { suspend: "perhaps" }, "spec.suspend: must be boolean"],
    ["a broken rule", { keyRotation: { every: "1m" } }, "every is a duration of at least 1h"],
  ] as const)(
    "refuses a new object with %s, and reports it in a status file",
    async ([_, spec, fault], { world }) => {
      await world.started("shop.yaml", platform("shop", spec));
      expect(world.names()).toEqual([]);
      const state = await world.folders.state("Platform", "shop");
      expect(state?.metadata.uid).toBeUndefined();
      const ready = state?.status?.conditions?.find(({ type }) => type === "Ready");
      expect(ready).toMatchObject({ status: "False", reason: "InvalidSpec" });
      expect(ready?.message).toContain(fault);
      expect(await world.folders.errors()).toMatchObject([
        { file: "shop.yaml", document: 1, object: "Platform/default/shop" },
      ]);
    },
  );

  test("accepts an object once its manifest is corrected", async ({ world }) => {
    await world.started("shop.yaml", platform("shop", { colour: "red" }));
    await world.folders.write("shop.yaml", platform());
    await until("it is accepted", () => world.shop() !== undefined);
    expect((await world.folders.state("Platform", "shop"))?.metadata.uid).toBe(world.shop()?.metadata.uid);
    await until("the error is gone", async () => (await world.folders.errors()).length === 0);
  });

  test("removes the report of a refused manifest when the manifest is removed", async ({ world }) => {
    await world.started("shop.yaml", platform("shop", { colour: "red" }));
    await world.folders.remove("shop.yaml");
    await until("it is forgotten", async () => (await world.folders.state("Platform", "shop")) === undefined);
  });

  test("keeps an object whose manifest is refused, and reports the fault until it is corrected", async ({
    world,
  }) => {
    await world.started("shop.yaml", platform());
    const before = world.shop();
    await world.folders.write("shop.yaml", platform("shop", { surfaceType: "meetings" }));
    await until(
      "the refusal is reported",
      async () => world.shop()?.status.conditions?.[0]?.type === "Accepted",
    );
    expect(world.shop()?.status.conditions?.[0]).toMatchObject({ status: "False", reason: "InvalidSpec" });
    expect(world.shop()?.status.conditions?.[0]?.message).toContain("surfaceType is immutable");
    expect(world.shop()).toMatchObject({
      spec: before?.spec,
      metadata: { uid: before?.metadata.uid, generation: 1 },
    });
    await world.restart();
    expect(world.shop()?.spec).toEqual(before?.spec);
    await world.folders.write("shop.yaml", platform());
    await until("the manifest is corrected", () => world.shop()?.status.conditions?.length === 0);
    expect(world.shop()?.metadata.generation).toBe(1);
  });

  test("compares a change with the last accepted version, even after a restart", async ({ world }) => {
    await world.started("shop.yaml", platform());
    await world.folders.write("shop.yaml", platform("shop", { defaultAllowedScopes: ["data:read"] }));
    await until("the ceiling shrank", () => world.shop()?.metadata.generation === 2);
    await world.restart();
    await world.folders.write("shop.yaml", platform());
    await until("widening is refused", async () => (await world.folders.errors()).length === 1);
    expect(world.shop()?.spec.defaultAllowedScopes).toEqual(["data:read"]);
  });

  test("adds the refusal to the operator's conditions, and keeps those conditions", async ({ world }) => {
    await world.started("shop.yaml", platform());
    const ready = {
      type: "Ready",
      status: "True" as const,
      reason: "Active",
      message: "",
      observedGeneration: 1,
      lastTransitionTime: "2026-01-01T00:00:00.000Z",
    };
    const object = world.shop();
    if (object === undefined) throw new Error("not there");
    await world.resources.writeStatus(object, { observedGeneration: 1, conditions: [ready] });
    await world.folders.write("shop.yaml", platform("shop", { colour: "red" }));
    const types = () =>
      world
        .shop()
        ?.status.conditions?.map(({ type }) => type)
        .sort();
    await until("the refusal is reported", () => types()?.length === 2);
    expect(types()).toEqual(["Accepted", "Ready"]);
    await world.resources.writeStatus(object, {
      observedGeneration: 1,
      conditions: [{ ...ready, message: "again" }],
    });
    expect(types()).toEqual(["Accepted", "Ready"]);
  });

  describe("a faulty document in a folder", () => {
    test.for([
      ["an open bracket", "kind: [Platform\n"],
      ["a key twice", "kind: Platform\nkind: Platform\n"],
      ["a tab", "a:\n\tb: 1\n"],
      [
        "an alias bomb",
        `a: &a [x,x,x,x,x,x,x,x,x,x]\n${[..."bcdefgh"].map((name, index) => `${name}: &${name} [${Array(10).fill(`*${"abcdefgh"[index]}`).join(",")}]`).join("\n")}\n`,
      ],
      ["too many bytes", `# ${"x".repeat(MAX_FILE_BYTES)}\n`],
    ] as const)(
      "makes the whole file faulty, but does not delete its objects: %s",
      async ([_, text], { world }) => {
        await world.started("shop.yaml", platform());
        await world.folders.write("shop.yaml", text);
        await until("the error is reported", async () => (await world.folders.errors()).length === 1);
        expect(await world.folders.errors()).toMatchObject([{ file: "shop.yaml" }]);
        await world.quiet();
        expect(world.shop()?.metadata.deletionTimestamp).toBeUndefined();
        await world.restart();
        expect(world.shop()?.spec).toEqual(platform().spec);
      },
    );

    test.for([
      ["a misspelled kind", { ...platform(), kind: "Platfrom" }, "is not a kind of"],
      ["a misspelled group", { ...platform(), apiVersion: "deputise.io/v1alpha1" }, "is not a kind of"],
      ["no name", { ...platform(), metadata: {} }, "metadata.name"],
      ["a name with ../", { ...platform(), metadata: { name: "../../etc" } }, "metadata.name"],
      ["a namespace with ../", { ...platform(), metadata: { name: "shop", namespace: ".." } }, "namespace"],
      ["a list", [platform()], "not an object"],
    ] as const)(
      "causes an error, but does not delete the object that it may declare: %s",
      async ([_, document, fault], { world }) => {
        await world.started("shop.yaml", platform());
        await world.folders.write("shop.yaml", document);
        await until("the error is reported", async () =>
          (await world.faults()).some((text) => text.includes(fault)),
        );
        await world.quiet();
        expect(world.shop()?.metadata.deletionTimestamp).toBeUndefined();
        expect(await readdir(world.folders.root)).toEqual(["manifests", "secrets", "status"]);
      },
    );

    test("does not prevent the deletion of a different object in the same file", async ({ world }) => {
      const foreign = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "other" } };
      await world.started("shop.yaml", platform(), foreign);
      await world.folders.write("shop.yaml", foreign);
      await until("it is gone", () => world.shop() === undefined);
      expect(await world.faults()).toEqual(["apps/v1 Deployment is not a kind of deputize.io/v1alpha1"]);
    });
  });
});
