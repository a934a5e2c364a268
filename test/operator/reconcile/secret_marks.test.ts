import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { parse, stringify } from "yaml";
import { openSecretFiles } from "../../../src/operator/folder/secrets.ts";
import type { PlatformStatus } from "../../../src/operator/kinds.ts";
import type { Secret } from "../../../src/operator/resources.ts";
import { until } from "../../support/process.ts";
import { tenants } from "../folder/folders.ts";
import { folderTest, only, platform } from "../operator_folder.ts";

const ROTATE = "deputize.io/rotate-key";
const RECONCILE = "deputize.io/reconcile-at";

describe.concurrent("the Secret of a platform", () => {
  const test = folderTest.extend("shop", ({ world }) => {
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
    return { declare, status, rotations, path, secret, begin };
  });

  test("names its manager and its key's version, which grows with each new key", async ({ world, shop }) => {
    await shop.begin();
    expect((await shop.secret()).labels).toEqual({ "app.kubernetes.io/managed-by": "deputize" });
    expect((await shop.secret()).annotations["deputize.io/credentials-version"]).toBe("1");
    expect((await shop.status()).credentialsVersion).toBe(1);
    const { api_key } = only(world.api.platforms);
    await shop.declare({}, { [ROTATE]: "2026-11-23T12:00:00Z" });
    await until(
      "the status shows the new version",
      async () => (await shop.status()).credentialsVersion === 2,
    );
    expect((await shop.secret()).annotations["deputize.io/credentials-version"]).toBe("2");
    expect((await shop.secret()).data.api_key).not.toBe(api_key);
  });

  test("continues the version numbers after the Secret was lost", async ({ shop }) => {
    await shop.begin();
    await rm(shop.path());
    await until("there is a new key", async () => (await shop.status()).credentialsVersion === 2);
    expect((await shop.secret()).annotations["deputize.io/credentials-version"]).toBe("2");
  });

  test.for(["api_key", "signing_secret", "webhook_signing_secret", "platform_id", "connection_id"])(
    "gets a new key if somebody changes its %s",
    async (name, { world, shop }) => {
      await shop.begin();
      const secret = await shop.secret();
      const changed = { ...secret, data: { ...secret.data, [name]: "changed by a person" } };
      expect(await openSecretFiles(world.folders.secrets).write(changed, secret)).toBe(true);
      await until("there is a new key", async () => (await shop.status()).credentialsVersion === 2);
      const { data } = await shop.secret();
      expect(data).toMatchObject({
        ...secret.data,
        api_key: only(world.api.platforms).api_key,
        api_key_prefix: expect.any(String),
      });
      expect(data.api_key).not.toBe(secret.data.api_key);
    },
  );

  test("keeps its key if an earlier version, without a digest, has written it", async ({ world, shop }) => {
    await shop.begin();
    await world.stop();
    const secret = await shop.secret();
    const { "deputize.io/content-sha256": digest, ...annotations } = secret.annotations;
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    await openSecretFiles(world.folders.secrets).write({ ...secret, annotations }, secret);
    await world.start();
    await until("the digest is added", async () => {
      return (await shop.secret()).annotations["deputize.io/content-sha256"] === digest;
    });
    expect((await shop.secret()).data).toEqual(secret.data);
    expect(shop.rotations()).toBe(0);
  });

  test("gets one new key for each rotation request, and the status repeats the request", async ({
    world,
    shop,
  }) => {
    await shop.begin({}, { [ROTATE]: "from before" });
    expect((await shop.status()).lastRotationRequest).toBe("from before");
    expect(shop.rotations()).toBe(0);
    await shop.declare({ keyRotation: { every: "720h", grace: "1h" } }, { [ROTATE]: "leaked" });
    await until("the status repeats it", async () => (await shop.status()).lastRotationRequest === "leaked");
    expect(shop.rotations()).toBe(1);
    expect(only(world.api.platforms).retired[0]?.graceSeconds).toBe(3600);
    expect((await shop.secret()).data.api_key).toBe(only(world.api.platforms).api_key);
    await world.stop();
    await world.start();
    await shop.declare({ displayName: "New" }, { [ROTATE]: "leaked" });
    await until("the change is sent", () => only(world.api.platforms).desired.name === "New");
    expect(shop.rotations()).toBe(1);
    await shop.declare({ displayName: "New" });
    await shop.declare({ displayName: "Newer" });
    await until("the change is sent", () => only(world.api.platforms).desired.name === "Newer");
    expect(shop.rotations()).toBe(1);
  });

  test("gets no second key for a request if somebody removes its marks", async ({ world, shop }) => {
    await shop.begin();
    await shop.declare({ keyRotation: { every: "720h" } }, { [ROTATE]: "leaked" });
    await until("the request is handled", async () => (await shop.status()).lastRotationRequest === "leaked");
    expect(only(world.api.platforms).rotation_request).toBe("leaked");
    const { annotations, ...rest } = parse(await readFile(shop.path(), "utf8")).metadata;
    const { [ROTATE]: request, "deputize.io/issued-at": issued, ...kept } = annotations;
    expect([request, issued]).toEqual(["leaked", expect.any(String)]);
    const secret = parse(await readFile(shop.path(), "utf8"));
    await writeFile(shop.path(), stringify({ ...secret, metadata: { ...rest, annotations: kept } }));
    await shop.declare({ keyRotation: { every: "720h" }, displayName: "New" }, { [ROTATE]: "leaked" });
    await until("the change is sent", () => only(world.api.platforms).desired.name === "New");
    await world.reaches("Platform", "shop", "Active");
    expect(shop.rotations()).toBe(1);
  });

  test("keeps a rotation request open if its key is older than the request", async ({ world, shop }) => {
    await shop.begin();
    const registered = only(world.api.platforms);
    registered.undelivered = true;
    const before = registered.api_key;
    await shop.declare({}, { [ROTATE]: "leaked" });
    await until("the request is handled", async () => (await shop.status()).lastRotationRequest === "leaked");
    expect(only(world.api.platforms).api_key).not.toBe(before);
    expect((await shop.secret()).data.api_key).toBe(only(world.api.platforms).api_key);
  });

  test("has the template's labels and annotations, and drops those of a former template", async ({
    shop,
  }) => {
    await shop.begin({
      secretTemplate: { labels: { team: "shop" }, annotations: { note: "a", other: "b" } },
    });
    expect((await shop.secret()).labels).toMatchObject({ team: "shop" });
    expect((await shop.secret()).annotations).toMatchObject({ note: "a", other: "b" });
    await shop.declare({ secretTemplate: { annotations: { note: "c" } } });
    await until("the new template is applied", async () => (await shop.secret()).annotations.note === "c");
    expect((await shop.secret()).labels).toEqual({ "app.kubernetes.io/managed-by": "deputize" });
    expect((await shop.secret()).annotations).not.toHaveProperty("other");
    expect(shop.rotations()).toBe(0);
    await shop.declare({});
    await until("the template is removed", async () => !("note" in (await shop.secret()).annotations));
    expect(
      Object.keys((await shop.secret()).annotations).filter((name) => !name.startsWith("deputize.io/")),
    ).toEqual([]);
    expect((await shop.secret()).annotations).not.toHaveProperty("deputize.io/template");
  });

  test("keeps labels and annotations that others set", async ({ shop }) => {
    await shop.begin({ secretTemplate: { labels: { team: "shop" } } });
    const file = parse(await readFile(shop.path(), "utf8"));
    Object.assign(file.metadata.labels, { theirs: "1" });
    Object.assign(file.metadata.annotations, { "theirs.example.test/x": "2" });
    await writeFile(shop.path(), stringify(file));
    await shop.declare({ secretTemplate: { labels: { team: "bank" } } });
    await until("the new template is applied", async () => (await shop.secret()).labels.team === "bank");
    expect((await shop.secret()).labels.theirs).toBe("1");
    expect((await shop.secret()).annotations["theirs.example.test/x"]).toBe("2");
  });

  test("belongs to a platform that handles a reconciliation request once, and repeats the request in its status", async ({
    world,
    shop,
  }) => {
    await shop.begin();
    const before = world.api.callsTo("PUT", "/platforms").length;
    await shop.declare({}, { [RECONCILE]: "now" });
    await until("the status repeats it", async () => (await shop.status()).lastHandledReconcileAt === "now");
    expect(world.api.callsTo("PUT", "/platforms").length).toBe(before + 1);
    await shop.declare({});
    await until(
      "the status no longer repeats it",
      async () => (await shop.status()).lastHandledReconcileAt === undefined,
    );
  });
});
