import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { type ManifestFolders, openManifests } from "../../../src/dev/tour/manifests.ts";
import { openQuickstart, type QuickstartFolder } from "../../../src/dev/tour/quickstart_folder.ts";

const examples = fileURLToPath(new URL("../../../docs/examples/quickstart", import.meta.url));
let folder: string;
let folders: ManifestFolders;
let quickstart: QuickstartFolder;
let over: AbortController;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-manifests-"));
  const inFolder = (name: string) => join(folder, name);
  folders = {
    examples,
    manifests: inFolder("manifests"),
    status: inFolder("status"),
    credentials: inFolder("credentials"),
  };
  over = new AbortController();
  quickstart = openQuickstart({ ...folders, secrets: folders.credentials, interrupted: over.signal });
});

afterEach(() => rm(folder, { recursive: true, force: true }));

const all = ["agent.yaml", "delegation.yaml", "platform.yaml", "tenants.yaml"];
const manifests = async () => (await readdir(folders.manifests)).sort();
const manifest = (file: string) => join(folders.manifests, file);

test("a new manifests folder starts empty and stays unchanged afterwards", async () => {
  expect(await openManifests(folders)).toBe("new");
  expect(await manifests()).toEqual([]);
  await writeFile(manifest("mine.yaml"), "kind: Mine\n");
  expect(await openManifests(folders)).toBe("kept");
  expect(await manifests()).toEqual(["mine.yaml"]);
});

test("a missing manifests folder is restored with every example file", async () => {
  await openManifests(folders);
  await rm(folders.manifests, { recursive: true });
  await mkdir(`${folders.manifests}.partial`);
  await writeFile(join(`${folders.manifests}.partial`, "half.yaml"), "kind:");
  expect(await openManifests(folders)).toBe("restored");
  expect(await manifests()).toEqual(all);
  expect(await readdir(folder)).not.toContain("manifests.partial");
  expect(await openManifests(folders)).toBe("kept");
});

test("a folder still counts as new if the first start was interrupted before it created the status folder", async () => {
  await mkdir(folders.manifests);
  expect(await openManifests(folders)).toBe("new");
});

test("declarePlatform writes the reader's delegation only once and keeps edited files", async () => {
  await openManifests(folders);
  await quickstart.declarePlatform();
  expect(await manifests()).toEqual(all);
  expect(await quickstart.delegationFile()).toBe("example");
  await writeFile(manifest("delegation.yaml"), "kind: Mine\n");
  await rm(manifest("agent.yaml"));
  await quickstart.declarePlatform();
  expect(await manifests()).toEqual(all);
  expect(await quickstart.delegationFile()).toBe("edited");
  await rm(manifest("delegation.yaml"));
  await quickstart.declarePlatform();
  expect(await quickstart.delegationFile()).toBe("missing");
});

test("requestTour uses a separate file and object, and leaves the reader's delegation unchanged", async () => {
  await openManifests(folders);
  await writeFile(manifest("delegation.yaml"), "kind: Mine\n");
  await quickstart.requestTour();
  const example = parse(await readFile(join(examples, "delegation.yaml"), "utf8"));
  const tour = parse(await readFile(manifest("tour.yaml"), "utf8"));
  expect(tour).toEqual({ ...example, metadata: { ...example.metadata, name: "shop-bot-tour" } });
  expect(await readFile(manifest("delegation.yaml"), "utf8")).toBe("kind: Mine\n");
});

const condition = (type: string, status: string, observedGeneration: number, reason = "Active") => ({
  type,
  status,
  reason,
  message: "",
  observedGeneration,
});

async function writeStatus(metadata: object, ...conditions: object[]): Promise<void> {
  await mkdir(join(folders.status, "default"), { recursive: true });
  const state = { metadata, status: { conditions } };
  await writeFile(join(folders.status, "default", "platform.shop.yaml"), JSON.stringify(state));
}

test("objectState ignores a status of an earlier generation", async () => {
  expect(await quickstart.objectState("platform")).toBeUndefined();
  await writeStatus({ generation: 2 }, condition("Ready", "True", 1));
  expect(await quickstart.objectState("platform")).toBeUndefined();
  await writeStatus(
    { generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z" },
    condition("Ready", "True", 2),
  );
  expect(await quickstart.objectState("platform")).toBeUndefined();
  await writeStatus({ generation: 2 }, condition("Ready", "True", 2));
  expect(await quickstart.objectState("platform")).toMatchObject({
    ready: true,
    stalled: false,
    reason: "Active",
  });
  await writeStatus({ generation: 2 }, condition("Ready", "False", 2), condition("Stalled", "True", 2));
  expect(await quickstart.objectState("platform")).toMatchObject({ ready: false, stalled: true });
  await writeStatus({ generation: 2 }, condition("Ready", "False", 2, "Suspended"));
  expect(await quickstart.objectState("platform")).toMatchObject({ ready: false, stalled: true });
});

test.each(["{", "", "just text"])(
  "the error message contains the path of a damaged credentials file (%j)",
  async (text) => {
    await mkdir(join(folders.credentials, "default"), { recursive: true });
    const file = join(folders.credentials, "default", "shop-credentials.yaml");
    await writeFile(file, text);
    await expect(quickstart.credentials()).rejects.toMatchObject({
      name: "UserError",
      message: expect.stringContaining(file),
    });
  },
);

test("an interruption ends the wait for the operator and prevents further declarations", async () => {
  await openManifests(folders);
  await quickstart.declarePlatform();
  const state = join(folders.status, "default", "delegation.shop-bot-tour.yaml");
  await mkdir(dirname(state), { recursive: true });
  await writeFile(state, "status: {}\n");
  const requested = quickstart.requestTour();
  over.abort();
  await expect(requested).rejects.toThrow("aborted");
  expect(await manifests()).toEqual(all);
  await expect(quickstart.objectState("tour")).rejects.toThrow("aborted");
});
