import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { appendFile, mkdir, open, readdir, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { StartRefused } from "../../../src/config.ts";
import { clusterIdOf } from "../../../src/operator/folder/cluster_id.ts";
import { MAX_FILE_BYTES } from "../../../src/operator/folder/documents.ts";
import { StateDamaged } from "../../../src/operator/folder/state_file.ts";
import type { Resources } from "../../../src/operator/resources.ts";
import { until } from "../../support/process.ts";
import { QUICK, type TestFolders, tenants, testFolders } from "./folders.ts";

const platform = (name = "shop", spec: object = {}) => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name },
  spec: {
    displayName: "Shop",
    surfaceType: "agentic_api",
    defaultAllowedScopes: ["data:read", "data:share"],
    ...spec,
  },
});

/** Lets whoever waits for the other end of a pipe go on, so that a fault of the reader ends with its test. */
async function releaseReaders(pipe: string): Promise<void> {
  const end = await open(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  await end.close();
}

describe("a folder of manifests", () => {
  let folders: TestFolders;
  let resources: Resources;
  const names = () =>
    resources
      .list("Platform")
      .map(({ metadata }) => metadata.name)
      .sort();
  const shop = () => resources.get("Platform", "default", "shop");
  const faults = async () => (await folders.errors()).flatMap((error) => error.faults);
  /** Long enough for a change to have had its effect, if it had one. */
  const settle = () => sleep((QUICK.settleMs + QUICK.missingMs) * 4);

  beforeEach(async () => {
    folders = await testFolders();
    resources = await folders.open();
  });
  afterEach(async () => {
    await resources.stop();
    await folders.dispose();
  });

  async function started(file: string, ...content: (string | object)[]): Promise<void> {
    await folders.write(file, ...content);
    await resources.start();
  }

  async function restart(): Promise<void> {
    await resources.stop();
    resources = await folders.open();
    await resources.start();
  }

  it("reads several documents of a file, and files in folders, whatever their ending", async () => {
    await folders.write("team/more.yml", platform("c"));
    await started("both.yaml", "# only a comment\n", platform("a"), platform("b"));
    expect(names()).toEqual(["a", "b", "c"]);
    expect(await folders.errors()).toEqual([]);
  });

  it("leaves out hidden files and files that are no YAML", async () => {
    await folders.write(".hidden.yaml", platform("a"));
    await folders.write(".git/b.yaml", platform("b"));
    await folders.write("notes.txt", "not: [yaml");
    await folders.write("platform.yaml~", platform("c"));
    await started("d.yaml", platform("d"));
    expect(names()).toEqual(["d"]);
  });

  it("follows links, as mounted ConfigMaps are made of", async () => {
    await mkdir(join(folders.manifests, "..data"));
    await folders.write("..data/shop.yaml", platform());
    await symlink("..data/shop.yaml", join(folders.manifests, "shop.yaml"));
    await resources.start();
    expect(names()).toEqual(["shop"]);
  });

  it("reports a link to nothing and reads the rest", async () => {
    await symlink("nowhere.yaml", join(folders.manifests, "gone.yaml"));
    await started("shop.yaml", platform());
    expect(names()).toEqual(["shop"]);
    expect((await folders.errors()).map(({ file }) => file)).toEqual(["gone.yaml"]);
  });

  it("reports a pipe and a link to a device as no files, reads neither, and goes on", async () => {
    const pipe = join(folders.manifests, "pipe.yaml");
    await promisify(execFile)("mkfifo", [pipe]);
    await symlink("/dev/null", join(folders.manifests, "device.yaml"));
    try {
      await started("shop.yaml", platform());
      expect(await folders.errors()).toEqual([
        { file: "device.yaml", faults: ["is not a regular file"] },
        { file: "pipe.yaml", faults: ["is not a regular file"] },
      ]);
      await folders.write("more.yaml", platform("more"));
      await until("it goes on", () => names().length === 2);
    } finally {
      await releaseReaders(pipe);
    }
  });

  it("keeps the objects of a file that a pipe took the place of", async () => {
    await started("shop.yaml", platform());
    await folders.remove("shop.yaml");
    const pipe = join(folders.manifests, "shop.yaml");
    await promisify(execFile)("mkfifo", [pipe]);
    try {
      await until("it is told", async () => (await faults()).includes("is not a regular file"));
      await settle();
      expect(shop()?.metadata.deletionTimestamp).toBeUndefined();
    } finally {
      await releaseReaders(pipe);
    }
  });

  it("reads 16 folders deep, and at 17 calls the folder unreadable and keeps everything", async () => {
    const deep = (depth: number) => `${"d/".repeat(depth)}deep.yaml`;
    await started(deep(16), platform());
    expect(names()).toEqual(["shop"]);
    await folders.write(deep(17), platform("deeper"));
    await until("it is told", async () =>
      (await faults()).includes("the folder cannot be read (more than 16 folders deep)"),
    );
    await settle();
    expect(names()).toEqual(["shop"]);
  });

  it.each([
    ["an unknown field", { colour: "red" }, "spec.colour: unknown field"],
    ["a wrong type", { suspend: "yes" }, "spec.suspend: must be boolean"],
    ["a broken rule", { keyRotation: { every: "1m" } }, "every is a duration of at least 1h"],
  ])("refuses a new object with %s, in a status of its own", async (_, spec, fault) => {
    await started("shop.yaml", platform("shop", spec));
    expect(names()).toEqual([]);
    const state = await folders.state("Platform", "shop");
    expect(state?.metadata.uid).toBeUndefined();
    const ready = state?.status?.conditions?.find(({ type }) => type === "Ready");
    expect(ready).toMatchObject({ status: "False", reason: "InvalidSpec" });
    expect(ready?.message).toContain(fault);
    expect(await folders.errors()).toMatchObject([
      { file: "shop.yaml", document: 1, object: "Platform/default/shop" },
    ]);
  });

  it("takes the object once its manifest is mended", async () => {
    await started("shop.yaml", platform("shop", { colour: "red" }));
    await folders.write("shop.yaml", platform());
    await until("it is taken", () => shop() !== undefined);
    expect((await folders.state("Platform", "shop"))?.metadata.uid).toBe(shop()?.metadata.uid);
    await until("the error is gone", async () => (await folders.errors()).length === 0);
  });

  it("forgets the refusal of a manifest that is taken away", async () => {
    await started("shop.yaml", platform("shop", { colour: "red" }));
    await folders.remove("shop.yaml");
    await until("it is forgotten", async () => (await folders.state("Platform", "shop")) === undefined);
  });

  it("keeps an object whose manifest is refused, and says so until it is mended", async () => {
    await started("shop.yaml", platform());
    const before = shop();
    await folders.write("shop.yaml", platform("shop", { surfaceType: "meetings" }));
    await until("it is told", async () => shop()?.status.conditions?.[0]?.type === "Accepted");
    expect(shop()?.status.conditions?.[0]).toMatchObject({ status: "False", reason: "InvalidSpec" });
    expect(shop()?.status.conditions?.[0]?.message).toContain("surfaceType is immutable");
    expect(shop()).toMatchObject({
      spec: before?.spec,
      metadata: { uid: before?.metadata.uid, generation: 1 },
    });
    await restart();
    expect(shop()?.spec).toEqual(before?.spec);
    await folders.write("shop.yaml", platform());
    await until("it is mended", () => shop()?.status.conditions?.length === 0);
    expect(shop()?.metadata.generation).toBe(1);
  });

  it("compares a change with the last accepted version, also after a restart", async () => {
    await started("shop.yaml", platform());
    await folders.write("shop.yaml", platform("shop", { defaultAllowedScopes: ["data:read"] }));
    await until("the ceiling shrank", () => shop()?.metadata.generation === 2);
    await restart();
    await folders.write("shop.yaml", platform());
    await until("widening is refused", async () => (await folders.errors()).length === 1);
    expect(shop()?.spec.defaultAllowedScopes).toEqual(["data:read"]);
  });

  it("keeps what the operator said when it notes a refusal, and notes it beside", async () => {
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
    await resources.writeStatus(object, { observedGeneration: 1, conditions: [ready] });
    await folders.write("shop.yaml", platform("shop", { colour: "red" }));
    const types = () =>
      shop()
        ?.status.conditions?.map(({ type }) => type)
        .sort();
    await until("it is told", () => types()?.length === 2);
    expect(types()).toEqual(["Accepted", "Ready"]);
    await resources.writeStatus(object, {
      observedGeneration: 1,
      conditions: [{ ...ready, message: "again" }],
    });
    expect(types()).toEqual(["Accepted", "Ready"]);
  });

  describe("syntax", () => {
    it.each([
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
      await folders.write("shop.yaml", text);
      await until("it is told", async () => (await folders.errors()).length === 1);
      expect(await folders.errors()).toMatchObject([{ file: "shop.yaml" }]);
      await settle();
      expect(shop()?.metadata.deletionTimestamp).toBeUndefined();
      await restart();
      expect(shop()?.spec).toEqual(platform().spec);
    });

    it.each([
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
      await folders.write("shop.yaml", document);
      await until("it is told", async () => (await faults()).some((text) => text.includes(fault)));
      await settle();
      expect(shop()?.metadata.deletionTimestamp).toBeUndefined();
      expect(await readdir(folders.root)).toEqual(["manifests", "secrets", "status"]);
    });

    it("a foreign object in the file keeps no other object from being deleted", async () => {
      const foreign = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "other" } };
      await started("shop.yaml", platform(), foreign);
      await folders.write("shop.yaml", foreign);
      await until("it is gone", () => shop() === undefined);
      expect(await faults()).toEqual(["apps/v1 Deployment is not a kind of deputize.io/v1alpha1"]);
    });
  });

  it("refuses an object that is declared twice, in every place, and keeps what is there", async () => {
    await started("a.yaml", platform());
    await folders.write("b.yaml", platform("shop", { displayName: "Other shop" }));
    await until("it is told", async () => (await folders.errors()).length === 2);
    expect((await folders.errors()).map(({ file }) => file).sort()).toEqual(["a.yaml", "b.yaml"]);
    await folders.write("a.yaml", platform("shop", { displayName: "Third shop" }));
    await settle();
    expect(shop()).toMatchObject({ spec: { displayName: "Shop" }, metadata: { generation: 1 } });
    await folders.remove("b.yaml");
    await until("the only one holds", () => shop()?.spec.displayName === "Third shop");
  });

  it("takes neither of two declarations of a new object", async () => {
    await started("a.yaml", platform(), platform("shop", { displayName: "Other" }));
    expect(names()).toEqual([]);
    expect((await folders.errors()).map(({ document }) => document)).toEqual([1, 2]);
  });

  it("knows an object again that moves to another file", async () => {
    await started("a.yaml", platform());
    const uid = shop()?.metadata.uid;
    await rename(join(folders.manifests, "a.yaml"), join(folders.manifests, "b.yaml"));
    await settle();
    expect(shop()?.metadata).toMatchObject({ uid, generation: 1 });
    await folders.write("b.yaml", "kind: [");
    await until("it is told", async () => (await folders.errors()).length === 1);
    await settle();
    expect(shop()?.metadata.uid).toBe(uid);
  });

  it("does not take an editor's replacing of a file for a deletion", async () => {
    await started("shop.yaml", platform());
    const uid = shop()?.metadata.uid;
    for (let round = 0; round < 5; round += 1) {
      await rename(join(folders.manifests, "shop.yaml"), join(folders.manifests, "shop.yaml~"));
      await sleep(QUICK.missingMs / 4);
      await writeFile(join(folders.manifests, "shop.yaml"), "");
      await sleep(QUICK.settleMs / 3);
      await folders.write("shop.yaml", platform("shop", { displayName: `Round ${round}` }));
      await until("the round's name is there", () => shop()?.spec.displayName === `Round ${round}`);
    }
    expect(shop()?.metadata.uid).toBe(uid);
  });

  it("never takes a half-written file, even one that would be valid", async () => {
    const text = stringify(platform("shop", { defaultAllowedScopes: ["data:read", "data:share"] }));
    await started("shop.yaml", text);
    const cut = text.lastIndexOf("    - data:share");
    await writeFile(join(folders.manifests, "shop.yaml"), text.slice(0, cut));
    for (let count = 0; count < 10; count += 1) {
      await sleep(QUICK.settleMs / 3);
      await appendFile(join(folders.manifests, "shop.yaml"), "# not yet\n");
    }
    await folders.write("shop.yaml", text);
    await settle();
    expect(shop()?.spec.defaultAllowedScopes).toEqual(["data:read", "data:share"]);
    expect(shop()?.metadata.generation).toBe(1);
  });

  it("keeps everything when the folder is away, and goes on when it is back", async () => {
    await started("shop.yaml", platform());
    const uid = shop()?.metadata.uid;
    await rename(folders.manifests, `${folders.manifests}.away`);
    await until("it is told", async () => (await faults()).some((text) => text.includes("ENOENT")));
    await settle();
    expect(shop()?.metadata).toMatchObject({ uid });
    await restart();
    expect(shop()?.metadata).toMatchObject({ uid });
    await rename(`${folders.manifests}.away`, folders.manifests);
    await folders.write("more.yaml", platform("more"));
    await until("it goes on", () => names().length === 2);
    await until("the error is gone", async () => (await folders.errors()).length === 0);
  });

  it("deletes what was taken away while it was not running", async () => {
    await started("shop.yaml", platform());
    await resources.stop();
    await folders.remove("shop.yaml");
    resources = await folders.open();
    await resources.start();
    expect(shop()).toBeUndefined();
    expect(await folders.state("Platform", "shop")).toBeUndefined();
  });

  it("keeps the last binding while its file cannot be read, also over a restart", async () => {
    await started("tenants.yaml", tenants());
    expect(resources.binding("default")?.tenant).toBeDefined();
    await folders.write("tenants.yaml", "data: [");
    await until("it is told", async () => (await folders.errors()).length === 1);
    expect(resources.binding("default")?.tenant).toBeDefined();
    await restart();
    expect(resources.binding("default")?.tenant).toBeDefined();
    await folders.remove("tenants.yaml");
    await until("the binding is gone", () => resources.binding("default") === undefined);
  });

  it("keeps the last binding while it is declared twice", async () => {
    await started("tenants.yaml", tenants());
    await folders.write("other.yaml", tenants({ default: "accountEmail: other@example.test" }));
    await until("it is told", async () => (await folders.errors()).length === 2);
    expect(resources.binding("default")?.tenant?.accountEmail).toBe("owner@example.test");
  });

  it("writes Secrets for their owner's eyes only", async () => {
    await resources.start();
    await resources.writeSecret({
      namespace: "default",
      name: "s",
      type: "t",
      annotations: {},
      data: { a: "b" },
    });
    const path = join(folders.secrets, "default", "s.yaml");
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(folders.secrets, "default"))).mode & 0o777).toBe(0o700);
  });

  it("takes a file that is no Secret for somebody else's", async () => {
    await resources.start();
    await mkdir(join(folders.secrets, "default"), { recursive: true });
    await writeFile(join(folders.secrets, "default", "s.yaml"), "my shopping list");
    expect(await resources.readSecret("default", "s")).toMatchObject({ type: "", data: {} });
    const written = { namespace: "default", name: "s", type: "t", annotations: {}, data: { a: "b" } };
    expect(await resources.writeSecret(written)).toBe(false);
  });

  it("writes nothing when it looks again and nothing changed", async () => {
    await started("shop.yaml", platform(), tenants());
    await folders.write("broken.yaml", platform("broken", { colour: "red" }));
    await until("the broken one is told", async () => (await folders.errors()).length === 1);
    const files = [
      "default/platform.shop.yaml",
      "default/platform.broken.yaml",
      "tenants.yaml",
      "errors.yaml",
    ];
    const stamps = () =>
      Promise.all(
        files.map(async (file) => {
          const { ino, mtimeMs } = await stat(join(folders.status, file));
          return `${ino} ${mtimeMs}`;
        }),
      );
    const before = await stamps();
    await folders.write("unrelated.yaml", "# nothing\n");
    await settle();
    expect(await stamps()).toEqual(before);
  });

  it("refuses to start over a record of its own that is damaged, and names it", async () => {
    await started("shop.yaml", platform());
    await resources.stop();
    const path = join(folders.status, "default", "platform.shop.yaml");
    for (const text of ["kind: [", "kind: Platform\nmetadata: {name: shop, uid: 7}\n", ""]) {
      await writeFile(path, text);
      await expect(folders.open()).rejects.toThrow(StateDamaged);
      await expect(folders.open()).rejects.toThrow(path);
    }
    await rm(path);
    resources = await folders.open();
    await resources.start();
    expect(names()).toEqual(["shop"]);
  });

  it("refuses to start over a damaged record of the tenants, says what that is, and reads it anew once removed", async () => {
    await started("tenants.yaml", tenants());
    const before = resources.binding("default");
    expect(before?.tenant).toBeDefined();
    await resources.stop();
    const path = join(folders.status, "tenants.yaml");
    for (const text of ["data: [", "", "data: {}\n", "metadata: {annotations: {}}\ndata: {}\n"]) {
      await writeFile(path, text);
      const error: unknown = await folders.open().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StateDamaged);
      expect((error as Error).message).toContain(
        `${path} cannot be understood. It is the operator's record of which account`,
      );
      expect((error as Error).message).not.toContain("registered anew");
    }
    await rm(path);
    resources = await folders.open();
    await resources.start();
    expect(resources.binding("default")).toEqual(before);
  });

  it("clears away what a crash left half-written", async () => {
    await started("shop.yaml", platform());
    await writeFile(join(folders.status, "default", ".platform.shop.yaml.abc.unfinished"), "kind: Pl");
    await restart();
    expect(await readdir(join(folders.status, "default"))).toEqual(["platform.shop.yaml"]);
    expect(names()).toEqual(["shop"]);
  });

  it("keeps one id for a folder of status, and refuses to make up another", async () => {
    const path = join(folders.status, "cluster.yaml");
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

  it("makes up no id for objects that are known under another", async () => {
    const path = join(folders.status, "cluster.yaml");
    const error: unknown = await clusterIdOf(path, { hasObjects: true }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StartRefused);
    expect((error as Error).message).toMatch(/^[^\n]*cluster\.yaml is missing[^\n]*restore it[^\n]*$/);
    await expect(stat(path)).rejects.toThrow("ENOENT");
  });
});
