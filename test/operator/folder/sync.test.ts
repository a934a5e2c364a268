import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { systemClock } from "../../../src/clock.ts";
import type { Known } from "../../../src/operator/folder/plan.ts";
import type { Store } from "../../../src/operator/folder/store.ts";
import { createManifestSync } from "../../../src/operator/folder/sync.ts";
import { createSecretWatch } from "../../../src/operator/folder/watch.ts";
import { keyText } from "../../../src/operator/kinds.ts";
import { loadSchemas } from "../../../src/operator/schema/schemas.ts";
import { logged } from "../../support/logged.ts";
import { until } from "../../support/process.ts";
import { type TestFolders, testFolders } from "./folders.ts";
import { platform } from "./open_folder.ts";

const MISSING_MS = 100;
const RESCAN_MS = 10_000;
const schemas = await loadSchemas();

describe("the loops over a folder whose changes send no hint", () => {
  let folders: TestFolders;
  let applied: string[];
  let known: Map<string, Known>;
  let failures: number;
  let syncs: number;
  let running: { stop(): Promise<void> };

  beforeEach(async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    folders = await testFolders();
    [applied, known, failures, syncs] = [[], new Map(), 0, 0];
  });
  afterEach(async () => {
    await running.stop();
    vi.useRealTimers();
    vi.restoreAllMocks();
    await folders.dispose();
  });

  /** Creates a link in a folder. A change of its target sends no hint. */
  async function linkTo(path: string, content: string): Promise<string> {
    const target = join(folders.root, "target.yaml");
    await writeFile(target, content);
    await symlink(target, path);
    return target;
  }
  const manifest = (displayName: string) => stringify(platform("shop", { displayName }));
  // Connections of earlier test files may also set timers.
  const waits = () => until("the loop waits", () => vi.getTimerCount() >= 1);
  async function pass(ms: number): Promise<void> {
    await waits();
    await vi.advanceTimersByTimeAsync(ms);
  }

  /** Rescans repeatedly, because a late hint about the start may have postponed a rescan. */
  const rescansUntil = (what: string, condition: () => boolean) =>
    until(what, async () => {
      await vi.advanceTimersByTimeAsync(RESCAN_MS);
      return condition();
    });

  function sync({ missingMs = MISSING_MS } = {}) {
    const { log, lines } = logged();
    const store = {
      known: () => known,
      bindings: () => undefined,
      reports: () => [],
      async change(key, change) {
        if (failures > 0) {
          failures -= 1;
          throw new Error("no space left");
        }
        const next = change(known.get(keyText(key)));
        if (next === undefined) known.delete(keyText(key));
        else known.set(keyText(key), next);
        applied.push(next?.object.kind === "Platform" ? next.object.spec.displayName : "deleted");
      },
    } as Partial<Store> as Store;
    const errors = {
      async show() {
        syncs += 1;
      },
    };
    const times = { quietMs: 1, missingMs, rescanMs: RESCAN_MS };
    const manifests = createManifestSync({
      ...{ folder: folders.manifests, schemas, store, errors, clock: systemClock, log },
      ...times,
    });
    running = manifests;
    return { manifests, lines };
  }

  test("find a changed manifest at the next rescan, also after a rescan that found nothing", async () => {
    const target = await linkTo(join(folders.manifests, "shop.yaml"), manifest("One"));
    const { manifests } = sync();
    await manifests.first();
    await pass(RESCAN_MS);
    await waits();
    await writeFile(target, manifest("Another"));
    await rescansUntil("it is applied", () => applied.at(-1) === "Another");
  });

  test("apply a manifest again soon after it could not be stored, and log the failure", async () => {
    await linkTo(join(folders.manifests, "shop.yaml"), manifest("One"));
    const { manifests, lines } = sync();
    await manifests.first();
    await waits();
    await writeFile(join(folders.root, "target.yaml"), manifest("Another"));
    failures = 1;
    await rescansUntil("it has failed", () => lines.length === 1);
    expect(lines).toEqual(["error the manifests could not be applied"]);
    await pass(MISSING_MS);
    await until("it is applied", () => applied.at(-1) === "Another");
  });

  test("wait again before they delete an object whose manifest vanished, returned and vanished", async () => {
    let passedMs = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, "now").mockImplementation(() => now() + passedMs);
    const path = join(folders.manifests, "shop.yaml");
    await writeFile(path, manifest("One"));
    const { manifests } = sync({ missingMs: 60_000 });
    await manifests.first();
    const looksAfter = async (ms: number) => {
      passedMs += ms;
      // Waits for two syncs, because one may have begun before the change.
      for (const wanted of [syncs + 1, syncs + 2]) {
        manifests.soon();
        await until("a sync ends", () => syncs >= wanted);
      }
      return applied.at(-1);
    };
    await rm(path);
    await looksAfter(0);
    await writeFile(path, manifest("Returned"));
    expect(await looksAfter(50_000)).toBe("Returned");
    await rm(path);
    expect(await looksAfter(50_000)).toBe("Returned");
    expect(await looksAfter(60_000)).toBe("deleted");
  });

  test("report a changed Secret at every rescan", async () => {
    await mkdir(join(folders.secrets, "default"), { recursive: true });
    const target = await linkTo(join(folders.secrets, "default", "key.yaml"), "one");
    const reported: string[] = [];
    const { log } = logged();
    const watch = createSecretWatch({
      ...{ folder: folders.secrets, log, rescanMs: RESCAN_MS },
      onChange: (namespace, name) => reported.push(`${namespace}/${name}`),
    });
    running = watch;
    await watch.start();
    await waits();
    reported.length = 0;
    for (const content of ["second", "the third"]) {
      await writeFile(target, content);
      await rescansUntil("it is reported", () => reported.length === 1);
      reported.length = 0;
    }
  });
});
