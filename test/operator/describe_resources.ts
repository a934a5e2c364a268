import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type AnyObject, FINALIZER, type Key, type Kind, keyOf } from "../../src/operator/kinds.ts";
import type { Change, Resources, Secret } from "../../src/operator/resources.ts";
import { until } from "../support/process.ts";

/** An empty store of objects, and functions that change it as users would. */
export type ResourcesHarness = {
  /** Not started yet. */
  resources: Resources;
  /** A refused object changes nothing. */
  apply(manifest: object): Promise<void>;
  remove(key: Key): Promise<void>;
  /** `data` maps namespaces to entries of the ConfigMap `deputize-tenants`. */
  bind(data: Record<string, string>): Promise<void>;
  /** Creates or changes a Secret as a different owner would. */
  putSecret(secret: Omit<Secret, "version">): Promise<void>;
  /** Opens the store again over the same data, without starting it. */
  reopen(): Promise<Resources>;
  close(): Promise<void>;
};

const NAME = "shop";
const key: Key = { kind: "Platform", namespace: "default", name: NAME };

const platform = (spec: object = {}, metadata: object = {}) => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name: NAME, namespace: "default", ...metadata },
  spec: {
    displayName: "Shop",
    surfaceType: "agentic_api",
    defaultAllowedScopes: ["data:read", "payments:send"],
    ...spec,
  },
});

const secret = (data: Record<string, string> = { api_key: "first" }): Omit<Secret, "version"> => ({
  namespace: "default",
  name: "shop-credentials",
  type: "deputize.io/platform-credentials",
  labels: { team: "shop" },
  annotations: { "deputize.io/platform-uid": "1" },
  data,
});

const status = (message: string) => ({
  observedGeneration: 1,
  platformID: "p-1",
  conditions: [
    {
      type: "Ready",
      status: "True" as const,
      reason: "Active",
      message,
      observedGeneration: 1,
      lastTransitionTime: "2026-01-01T00:00:00.000Z",
    },
  ],
});

/** Declares the tests that every store of objects must pass. */
export function describeResources(name: string, open: () => Promise<ResourcesHarness>): void {
  describe(`resources in ${name}`, () => {
    let harness: ResourcesHarness;
    let resources: Resources;
    let changes: Change[];

    beforeEach(async () => {
      harness = await open();
      use(harness.resources);
    });
    afterEach(() => harness.close());

    function use(opened: Resources): void {
      resources = opened;
      changes = [];
      resources.subscribe((change) => changes.push(change));
    }

    const get = (): AnyObject | undefined => resources.get("Platform", key.namespace, NAME);
    const told = (kind: Kind | "Secret" | "Bindings", of = NAME) =>
      changes.some((change) => change.kind === kind && (kind === "Bindings" || change.name === of));

    async function existing(metadata: object = {}): Promise<AnyObject> {
      await harness.apply(platform({}, metadata));
      await resources.start();
      await until("the object is there", () => get() !== undefined);
      return get() as AnyObject;
    }

    async function finalized(): Promise<AnyObject> {
      await resources.setFinalizer(await existing(), true);
      await until("the finalizer is there", () => get()?.metadata.finalizers.includes(FINALIZER) === true);
      return get() as AnyObject;
    }

    test("list objects that existed before the start, and report each of them", async () => {
      const object = await existing();
      expect(object.metadata).toMatchObject({
        name: NAME,
        namespace: "default",
        generation: 1,
        finalizers: [],
      });
      expect(object.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
      expect(object.spec).toEqual(platform().spec);
      expect(resources.list("Platform").map(keyOf)).toEqual([key]);
      expect(resources.list("Agent")).toEqual([]);
      expect(told("Platform")).toBe(true);
    });

    test("list objects that are created after the start", async () => {
      await resources.start();
      expect(get()).toBeUndefined();
      await harness.apply(platform());
      await until("the object is there", () => get() !== undefined);
      expect(told("Platform")).toBe(true);
    });

    test("tell whether an object is current, and update the copy of an object that is not", async () => {
      const first = await existing();
      expect(await resources.isCurrent(first)).toBe(true);
      expect(await resources.isCurrent({ ...first, metadata: { ...first.metadata, uid: "another" } })).toBe(
        false,
      );
      await harness.apply(platform({ displayName: "New shop" }));
      await until("the former version is no longer current", async () => !(await resources.isCurrent(first)));
      expect(get()?.metadata.generation).toBe(2);
      const second = get() as AnyObject;
      expect(await resources.isCurrent(second)).toBe(true);
      await resources.writeStatus(second, { observedGeneration: 2 });
      expect(await resources.isCurrent(second)).toBe(true);
      await resources.setFinalizer(second, true);
      await harness.remove(key);
      await until("it is being deleted", async () => !(await resources.isCurrent(second)));
      expect(get()?.metadata.deletionTimestamp).toBeDefined();
      await resources.setFinalizer(get() as AnyObject, false);
      await until("it is gone", () => get() === undefined);
      expect(await resources.isCurrent(second)).toBe(false);
    });

    test("count a new spec as a new generation of the same object", async () => {
      const { metadata } = await existing();
      await harness.apply(platform({ displayName: "New shop" }));
      await until("the spec is new", () => get()?.metadata.generation === 2);
      expect(get()?.metadata.uid).toBe(metadata.uid);
      expect(get()?.spec).toMatchObject({ displayName: "New shop" });
    });

    test("do not count a changed label as a new generation", async () => {
      await existing();
      await harness.apply(platform({}, { labels: { team: "a" } }));
      await until("the label is there", () => get()?.metadata.labels?.team === "a");
      expect(get()?.metadata.generation).toBe(1);
    });

    test("keep the former version of an object when a change is refused", async () => {
      await existing();
      await harness.apply(platform({ defaultAllowedScopes: ["data:read", "data:share"] }));
      await harness.apply(platform({ displayName: "Told after" }, { name: "marker" }));
      await until(
        "the later object was accepted",
        () => resources.get("Platform", "default", "marker") !== undefined,
      );
      expect(get()?.spec).toEqual(platform().spec);
      expect(get()?.metadata.generation).toBe(1);
    });

    test("keep a status, report it, and return it again after a restart", async () => {
      const object = await existing();
      changes.length = 0;
      await resources.writeStatus(object, status("all is well"));
      await until("the status is there", () => get()?.status.conditions?.[0]?.message === "all is well");
      expect(told("Platform")).toBe(true);
      expect(get()?.metadata.generation).toBe(1);
      use(await harness.reopen());
      await resources.start();
      expect(get()?.metadata.uid).toBe(object.metadata.uid);
      expect(get()?.status).toEqual(status("all is well"));
    });

    test("contain their own writes as soon as the writes resolve", async () => {
      const object = await existing();
      await resources.writeStatus(object, status("all is well"));
      expect(get()?.status).toEqual(status("all is well"));
      await resources.setFinalizer(object, true);
      expect(get()?.metadata.finalizers).toEqual([FINALIZER]);
      await harness.remove(key);
      await until("it is being deleted", () => get()?.metadata.deletionTimestamp !== undefined);
      await resources.setFinalizer(object, false);
      expect(get()).toBeUndefined();
    });

    test("replace a status as a whole", async () => {
      const object = await existing();
      await resources.writeStatus(object, status("all is well"));
      const { platformID: _, ...less } = status("all is well");
      await resources.writeStatus(object, less);
      await until("the field is gone", () => get() !== undefined && !("platformID" in (get()?.status ?? {})));
    });

    test("do not write a status to a recreated object", async () => {
      const before = await existing();
      await harness.remove(key);
      await until("it is gone", () => get() === undefined);
      await harness.apply(platform());
      await until("it is there again", () => get() !== undefined);
      await resources.writeStatus(before, status("late"));
      await resources.setFinalizer(before, true);
      expect(get()?.metadata.uid).not.toBe(before.metadata.uid);
      expect(get()?.status.conditions ?? []).toEqual([]);
      expect(get()?.metadata.finalizers).toEqual([]);
    });

    test("remove an object without a finalizer immediately", async () => {
      await existing();
      changes.length = 0;
      await harness.remove(key);
      await until("it is gone", () => get() === undefined);
      expect(told("Platform")).toBe(true);
    });

    test("keep a deleted object until its finalizer is removed", async () => {
      const object = await finalized();
      changes.length = 0;
      await harness.remove(key);
      await until("it is being deleted", () => get()?.metadata.deletionTimestamp !== undefined);
      expect(told("Platform")).toBe(true);
      use(await harness.reopen());
      await resources.start();
      expect(get()?.metadata.deletionTimestamp).toBeDefined();
      await resources.setFinalizer(object, false);
      await until("it is gone", () => get() === undefined);
    });

    test("treat a recreated object as a new one", async () => {
      const object = await finalized();
      await harness.remove(key);
      await until("it is being deleted", () => get()?.metadata.deletionTimestamp !== undefined);
      await resources.setFinalizer(object, false);
      await until("it is gone", () => get() === undefined);
      await harness.apply(platform());
      await until("it is there again", () => get() !== undefined);
      expect(get()?.metadata).toMatchObject({ generation: 1, finalizers: [] });
      expect(get()?.metadata.uid).not.toBe(object.metadata.uid);
      expect(get()?.status.conditions ?? []).toEqual([]);
    });

    test("return objects that callers cannot modify", async () => {
      const object = await existing();
      expect(() => Object.assign(object.spec, { displayName: "Changed" })).toThrow(TypeError);
      expect(() => Object.assign(object.metadata, { uid: "other" })).toThrow(TypeError);
    });

    test("bind namespaces to accounts, and report a new binding", async () => {
      await harness.bind({ default: "accountEmail: owner@example.test", broken: "accountEmail: nobody" });
      await resources.start();
      await until("the binding is there", () => resources.binding("default") !== undefined);
      expect(resources.binding("default")).toEqual({
        source: "deputize-tenants",
        account: { accountEmail: "owner@example.test" },
      });
      expect(resources.binding("broken")?.fault).toContain("accountEmail");
      expect(resources.binding("other")).toBeUndefined();
      changes.length = 0;
      await harness.bind({ other: "accountEmail: owner@example.test\nceiling: [data:read]" });
      await until("the new binding is there", () => resources.binding("other") !== undefined);
      expect(resources.binding("other")?.account?.ceiling).toEqual(["data:read"]);
      expect(resources.binding("default")).toBeUndefined();
      expect(told("Bindings")).toBe(true);
    });

    test("create a Secret once, and never replace a different Secret", async () => {
      await resources.start();
      expect(await resources.readSecret("default", "shop-credentials")).toBeUndefined();
      expect(await resources.writeSecret(secret())).toBe(true);
      expect(await resources.readSecret("default", "shop-credentials")).toMatchObject(secret());
      expect(await resources.writeSecret(secret({ api_key: "second" }))).toBe(false);
      expect((await resources.readSecret("default", "shop-credentials"))?.data).toEqual({ api_key: "first" });
    });

    test("replace only the version of a Secret that the caller read", async () => {
      await resources.start();
      await resources.writeSecret(secret());
      const read = await resources.readSecret("default", "shop-credentials");
      expect(await resources.writeSecret(secret({ api_key: "second" }), read)).toBe(true);
      expect(await resources.writeSecret(secret({ api_key: "third" }), read)).toBe(false);
      expect((await resources.readSecret("default", "shop-credentials"))?.data).toEqual({
        api_key: "second",
      });
    });

    test("store any string in a Secret", async () => {
      await resources.start();
      const data = { api_key: "ünï: {}\n'\"\u0001 ", empty: "" };
      await resources.writeSecret(secret(data));
      expect((await resources.readSecret("default", "shop-credentials"))?.data).toEqual(data);
    });

    test("remove only the version of a Secret that the caller read", async () => {
      await resources.start();
      await resources.writeSecret(secret());
      const read = (await resources.readSecret("default", "shop-credentials")) as Secret;
      await resources.writeSecret(secret({ api_key: "second" }), read);
      expect(await resources.removeSecret(read)).toBe(false);
      const current = (await resources.readSecret("default", "shop-credentials")) as Secret;
      expect(await resources.removeSecret(current)).toBe(true);
      expect(await resources.readSecret("default", "shop-credentials")).toBeUndefined();
      expect(await resources.removeSecret(current)).toBe(true);
    });

    test("report changes that others make to Secrets of the operator's type", async () => {
      await resources.start();
      await harness.putSecret(secret());
      await until("the Secret was reported", () => told("Secret", "shop-credentials"));
      changes.length = 0;
      await harness.putSecret(secret({ api_key: "of others" }));
      await until("the change was reported", () => told("Secret", "shop-credentials"));
      const read = await resources.readSecret("default", "shop-credentials");
      expect(read?.data).toEqual({ api_key: "of others" });
    });

    test("read Secrets of other types but do not replace them", async () => {
      await resources.start();
      await harness.putSecret({ ...secret(), type: "Opaque" });
      expect((await resources.readSecret("default", "shop-credentials"))?.type).toBe("Opaque");
      expect(await resources.writeSecret(secret())).toBe(false);
    });

    test("accept events without failing", async () => {
      const object = await existing();
      resources.recordEvent(object, { type: "Normal", reason: "Active", message: "all is well" });
      await resources.stop();
    });
  });
}
