import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import type { Platform } from "../../../src/operator/kinds.ts";
import type { Resources } from "../../../src/operator/resources.ts";
import { QUICK, type TestFolders, testFolders } from "./folders.ts";

export const platform = (name = "shop", spec: object = {}) => ({
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

/** The folders of a test, and the resources that read them. */
export type OpenFolder = {
  folders: TestFolders;
  resources: Resources;
  /** Writes a manifest file and starts to read the folder. */
  started(file: string, ...content: (string | object)[]): Promise<void>;
  restart(): Promise<void>;
  /** Sorted names of the existing platforms. */
  names(): string[];
  shop(): Platform | undefined;
  faults(): Promise<string[]>;
  /** Waits until a change would have taken effect. */
  quiet(): Promise<void>;
};

/** Gives each test new folders. They are open, but reading has not started. */
export const openFolderTest = test.extend("world", async ({ onTestFinished }) => {
  const folders = await testFolders();
  const world: OpenFolder = {
    folders,
    resources: await folders.open(),
    async started(file, ...content) {
      await folders.write(file, ...content);
      await world.resources.start();
    },
    async restart() {
      await world.resources.stop();
      world.resources = await folders.open();
      await world.resources.start();
    },
    names: () =>
      world.resources
        .list("Platform")
        .map(({ metadata }) => metadata.name)
        .sort(),
    shop: () => world.resources.get("Platform", "default", "shop"),
    faults: async () => (await folders.errors()).flatMap((error) => error.faults),
    quiet: () => sleep((QUICK.quietMs + QUICK.missingMs) * 4),
  };
  onTestFinished(async () => {
    await world.resources.stop();
    await folders.dispose();
  });
  return world;
});
