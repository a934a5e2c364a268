import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { StartError } from "../../src/config.ts";
import { reasons } from "../../src/operator/reconcile/ready_reasons.ts";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { condition, only, platform, statePath, folderTest as test } from "./operator_folder.ts";

describe.concurrent("the operator after a restart", () => {
  test("refuses to start if objects exist without their identity file, and starts when the file is back", async ({
    world,
  }) => {
    const path = join(world.folders.status, "cluster.yaml");
    await world.folders.write("other.yaml", platform({ unknown: true }, { name: "other" }));
    await world.start();
    await world.stop();
    await rm(path);
    await world.start();
    await world.declareAgent();
    await world.stop();
    await rename(path, `${path}.away`);
    await expect(world.start()).rejects.toThrow(StartError);
    await rename(`${path}.away`, path);
    await world.start();
  });

  test("rotates no key and registers nothing again if an object's state file is lost", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const before = await world.credentials();
    const { platform_id: registered } = only(world.api.platforms);
    await world.stop();
    await rm(statePath(world, "Platform", "shop"));
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    expect(only(world.api.platforms).platform_id).toBe(registered);
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
    expect(await world.credentials()).toEqual(before);
  });

  test("rotates a lost key once while the status cannot be written", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const folder = join(world.folders.status, "default");
    await rename(folder, `${folder}.away`);
    await writeFile(folder, "");
    await rm(join(world.folders.secrets, "default", "shop-credentials.yaml"));
    const attempts = () => world.api.callsTo("PUT", "/platforms/").length;
    await until("the key is replaced", () => world.api.callsTo("POST", "rotate").length > 0);
    const written = attempts();
    await until("the operator has tried again", () => attempts() > written + 1);
    expect(world.api.callsTo("POST", "rotate")).toHaveLength(1);
    await rm(folder);
    await rename(`${folder}.away`, folder);
    await world.reaches("Platform", "shop", "Active");
    expect(world.api.callsTo("POST", "rotate")).toHaveLength(1);
    expect((await world.credentials())?.api_key).toBe(only(world.api.platforms).api_key);
  });

  test("becomes ready when every object has been reconciled, even while the API is unavailable", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    await world.stop();
    await world.folders.write("tenants.yaml", tenants({ default: "accountEmail: nobody@example.test" }));
    await world.start();
    const reason = async () => condition(await world.state("Platform", "shop"), "Ready")?.reason;
    expect(await reason()).toBe("Active");
    await until("it is ready", () => world.operator().isReady(), 5_000);
    expect(await reason()).toBe("NamespaceNotBound");
    await world.stop();
    await world.api.goAway();
    await world.start();
    await until("it is ready", () => world.operator().isReady(), 5_000);
    await world.api.comeBack();
  });

  test("writes nothing if nothing has changed, and requests nothing twice", async ({ world }) => {
    await world.start();
    const requestId = await world.declareDelegation();
    world.api.approve(requestId, ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
    const stamps = async () => {
      const paths = [
        statePath(world, "Platform", "shop"),
        statePath(world, "Agent", "bot"),
        statePath(world, "Delegation", "bot"),
        join(world.folders.secrets, "default", "shop-credentials.yaml"),
      ];
      return Promise.all(
        paths.map(async (path) => (({ ino, mtimeMs }) => `${ino} ${mtimeMs}`)(await stat(path))),
      );
    };
    await sleep(300);
    const before = await stamps();
    await world.stop();
    world.api.calls.length = 0;
    await world.start();
    await until("every object was reconciled", () => world.api.callsTo("PUT", "/platforms").length === 1);
    await sleep(500);
    expect(await stamps()).toEqual(before);
    expect(
      world.api.calls.filter(({ method }) => method !== "POST").map(({ path }) => path.split("/")[3]),
    ).toEqual(["platforms"]);
    expect(world.api.calls.every(({ path }) => !/rotate|acknowledge|revoke/.test(path))).toBe(true);
  });

  test("has kept an event for every new reason", async ({ world }) => {
    await world.start();
    await world.declareDelegation();
    await world.stop();
    const text = await readFile(join(world.folders.status, "events.jsonl"), "utf8");
    const events = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { object: string; reason: string });
    expect(events.filter(({ object }) => object === "Delegation/default/bot").at(-1)?.reason).toBe(
      "AwaitingApproval",
    );
    expect(events.map(({ reason }) => reason).every((reason) => Object.hasOwn(reasons, reason))).toBe(true);
  });

  test("keeps secrets out of status files, events and errors", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    await world.stop();
    const { api_key, signing_secret, webhook_signing_secret } = only(world.api.platforms);
    const texts = await Promise.all(
      [
        "default/platform.shop.yaml",
        "default/agent.bot.yaml",
        "events.jsonl",
        "cluster.yaml",
        "tenants.yaml",
      ].map((file) => readFile(join(world.folders.status, file), "utf8")),
    );
    for (const secret of [api_key, signing_secret, webhook_signing_secret, world.config.OPERATOR_TOKEN]) {
      expect(texts.join("\n")).not.toContain(secret);
    }
  });
});
