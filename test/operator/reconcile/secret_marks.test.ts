import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { openSecretFiles } from "../../../src/operator/folder/secrets.ts";
import type { PlatformStatus } from "../../../src/operator/kinds.ts";
import type { Secret } from "../../../src/operator/resources.ts";
import { until } from "../../support/process.ts";
import { tenants } from "../folder/folders.ts";
import { only, operatorFolderEach, platform } from "../operator_folder.ts";

const ROTATE = "deputize.io/rotate-key";
const RECONCILE = "deputize.io/reconcile-at";

describe("the Secret of a platform", () => {
  const world = operatorFolderEach();

  const declare = (spec: object = {}, annotations: Record<string, string> = {}) =>
    world.folders.write("platform.yaml", platform(spec, { annotations }));
  const status = async () => (await world.state("Platform", "shop")).status as PlatformStatus;
  const rotations = () => only(world.api.platforms).retired.length;
  const path = () => join(world.folders.secrets, "default", "shop-credentials.yaml");
  async function secret(): Promise<Secret> {
    const found = await openSecretFiles(world.folders.secrets).read("default", "shop-credentials");
    if (found === undefined) throw new Error("there is no Secret");
    return found;
  }
  async function begin(spec: object = {}, annotations: Record<string, string> = {}): Promise<void> {
    await world.folders.write("tenants.yaml", tenants());
    await declare(spec, annotations);
    await world.start();
    await world.reaches("Platform", "shop", "Active");
  }

  test("says who manages it, and the number of its key, which grows with each new one", async () => {
    await begin();
    expect((await secret()).labels).toEqual({ "app.kubernetes.io/managed-by": "deputize" });
    expect((await secret()).annotations["deputize.io/credentials-version"]).toBe("1");
    expect((await status()).credentialsVersion).toBe(1);
    const { api_key } = only(world.api.platforms);
    await declare({}, { [ROTATE]: "2026-11-23T12:00:00Z" });
    await until("the status says so", async () => (await status()).credentialsVersion === 2);
    expect((await secret()).annotations["deputize.io/credentials-version"]).toBe("2");
    expect((await secret()).data.api_key).not.toBe(api_key);
  });

  test("goes on counting where the Secret was lost", async () => {
    await begin();
    await rm(path());
    await until("there is a new key", async () => (await status()).credentialsVersion === 2);
    expect((await secret()).annotations["deputize.io/credentials-version"]).toBe("2");
  });

  test("gets a new key once for each request, which the status echoes", async () => {
    await begin({}, { [ROTATE]: "from before" });
    expect((await status()).lastRotationRequest).toBe("from before");
    expect(rotations()).toBe(0);
    await declare({ keyRotation: { every: "720h", grace: "1h" } }, { [ROTATE]: "leaked" });
    await until("it is echoed", async () => (await status()).lastRotationRequest === "leaked");
    expect(rotations()).toBe(1);
    expect(only(world.api.platforms).retired[0]?.graceSeconds).toBe(3600);
    expect((await secret()).data.api_key).toBe(only(world.api.platforms).api_key);
    await world.stop();
    await world.start();
    await declare({ displayName: "New" }, { [ROTATE]: "leaked" });
    await until("the change is sent", () => only(world.api.platforms).wish.name === "New");
    expect(rotations()).toBe(1);
    await declare({ displayName: "New" });
    await declare({ displayName: "Newer" });
    await until("the change is sent", () => only(world.api.platforms).wish.name === "Newer");
    expect(rotations()).toBe(1);
  });

  test("does not count a request as carried out by a key that was there before it", async () => {
    await begin();
    const registered = only(world.api.platforms);
    registered.undelivered = true;
    const before = registered.api_key;
    await declare({}, { [ROTATE]: "leaked" });
    await until("it is carried out", async () => (await status()).lastRotationRequest === "leaked");
    expect(only(world.api.platforms).api_key).not.toBe(before);
    expect((await secret()).data.api_key).toBe(only(world.api.platforms).api_key);
  });

  test("carries the labels and annotations of the template, and drops those it no longer names", async () => {
    await begin({ secretTemplate: { labels: { team: "shop" }, annotations: { note: "a", other: "b" } } });
    expect((await secret()).labels).toMatchObject({ team: "shop" });
    expect((await secret()).annotations).toMatchObject({ note: "a", other: "b" });
    await declare({ secretTemplate: { annotations: { note: "c" } } });
    await until("the template is followed", async () => (await secret()).annotations.note === "c");
    expect((await secret()).labels).toEqual({ "app.kubernetes.io/managed-by": "deputize" });
    expect((await secret()).annotations).not.toHaveProperty("other");
    expect(rotations()).toBe(0);
    await declare({});
    await until("the template is gone", async () => !("note" in (await secret()).annotations));
    expect(
      Object.keys((await secret()).annotations).filter((name) => !name.startsWith("deputize.io/")),
    ).toEqual([]);
    expect((await secret()).annotations).not.toHaveProperty("deputize.io/template");
  });

  test("keeps the labels and annotations that others gave it", async () => {
    await begin({ secretTemplate: { labels: { team: "shop" } } });
    const file = parse(await readFile(path(), "utf8"));
    Object.assign(file.metadata.labels, { theirs: "1" });
    Object.assign(file.metadata.annotations, { "theirs.example.test/x": "2" });
    await writeFile(path(), stringify(file));
    await declare({ secretTemplate: { labels: { team: "bank" } } });
    await until("the template is followed", async () => (await secret()).labels.team === "bank");
    expect((await secret()).labels.theirs).toBe("1");
    expect((await secret()).annotations["theirs.example.test/x"]).toBe("2");
  });

  test("is looked at again when the annotation asks for it, and the status says that this is done", async () => {
    await begin();
    const before = world.api.callsTo("PUT", "/platforms").length;
    await declare({}, { [RECONCILE]: "now" });
    await until("it is echoed", async () => (await status()).lastHandledReconcileAt === "now");
    expect(world.api.callsTo("PUT", "/platforms").length).toBe(before + 1);
    await declare({});
    await until("the echo goes", async () => (await status()).lastHandledReconcileAt === undefined);
  });
});
