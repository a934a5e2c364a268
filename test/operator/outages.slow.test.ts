import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import {
  agent,
  condition,
  delegation,
  only,
  platform,
  statePath,
  folderTest as test,
} from "./operator_folder.ts";

describe.concurrent("the operator in an outage", () => {
  describe("an outage of the API", () => {
    test("appears in the status, and ends as soon as the API answers", async ({ world }) => {
      await world.api.goAway();
      await world.folders.write("all.yaml", tenants(), platform(), agent());
      await world.start();
      const state = await world.reaches("Platform", "shop", "ApiUnavailable");
      expect(condition(state, "Ready")?.message).toContain("ECONNREFUSED");
      expect(condition(state, "Registered")?.status).toBe("Unknown");
      await world.api.comeBack();
      await world.reaches("Agent", "bot", "Active");
    });

    test.for([
      ["an error without a code", { status: 502, body: "<html>bad gateway</html>" }],
      ["a body that is not JSON", { status: 200, body: "OK" }],
      ["a body of an unknown form", { status: 200, body: '{"platforms":{"x":{}}}' }],
      ["the error unavailable", "unavailable"],
      ["the error internal", "internal"],
      ["the error rate_limited", "rate_limited"],
      ["a broken connection", "cut"],
    ] as const)(
      "appears in the status until the API recovers, if the API responds with %s",
      async ([_, failure], { world }) => {
        world.api.fail("POST /internal/v1/state", failure);
        await world.folders.write("all.yaml", tenants(), platform());
        await world.start();
        await world.reaches("Platform", "shop", "ApiUnavailable");
        world.api.heal();
        await world.reaches("Platform", "shop", "Active", 40_000);
      },
    );

    test("does not change active objects", async ({ world }) => {
      await world.start();
      const requestId = await world.declareDelegation();
      world.api.approve(requestId, ["data:read"]);
      await world.reaches("Delegation", "bot", "Active");
      const kept = await Promise.all(
        (["Platform", "Agent", "Delegation"] as const).map((kind) =>
          readFile(statePath(world, kind, kind === "Platform" ? "shop" : "bot"), "utf8"),
        ),
      );
      await world.stop();
      await world.api.goAway();
      await world.start();
      await sleep(2500);
      const now = await Promise.all(
        (["Platform", "Agent", "Delegation"] as const).map((kind) =>
          readFile(statePath(world, kind, kind === "Platform" ? "shop" : "bot"), "utf8"),
        ),
      );
      expect(now).toEqual(kept);
    });

    test("delays a revocation, which the operator retries at short intervals", async ({ world }) => {
      await world.start();
      const requestId = await world.declareDelegation();
      world.api.approve(requestId, ["data:read"]);
      await world.reaches("Delegation", "bot", "Active");
      world.api.fail("POST /internal/v1/delegations", "unavailable", 3);
      await world.folders.write("delegation.yaml", delegation({ revoked: true }));
      const state = await world.reaches("Delegation", "bot", "ApiUnavailable");
      expect(state.status).toMatchObject({ certStatus: "Active" });
      await world.reaches("Delegation", "bot", "Revoked");
    });

    test("appears in the status if the API refuses the token, and ends when the token is replaced", async ({
      world,
    }) => {
      const file = join(world.folders.root, "token");
      await writeFile(file, `${"x".repeat(40)}\n`);
      world.config.OPERATOR_TOKEN_FILE = file;
      await world.folders.write("all.yaml", tenants(), platform());
      await world.start();
      const state = await world.reaches("Platform", "shop", "AuthorizationFailed");
      expect(condition(state, "Stalled")?.status).toBe("True");
      await writeFile(file, `${world.config.OPERATOR_TOKEN}\n`);
      await world.reaches("Platform", "shop", "Active");
    });

    test("causes no write by a superseded leader", async ({ world }) => {
      await world.start();
      await world.declareAgent();
      world.api.fail("POST /internal/v1/state", "stale_epoch");
      await world.folders.write("delegation.yaml", delegation());
      await until("it was tried", () => world.api.callsTo("POST", "/state").length > 5);
      await sleep(300);
      expect((await world.folders.state("Delegation", "bot"))?.status ?? {}).toEqual({});
    });
  });

  describe("the credentials of a platform", () => {
    test("arrive again if the answer to the registration was lost", async ({ world }) => {
      world.api.loseAnswer("PUT /internal/v1/platforms");
      await world.folders.write("all.yaml", tenants(), platform());
      await world.start();
      await world.reaches("Platform", "shop", "Active");
      expect((await world.credentials())?.api_key).toBe(only(world.api.platforms).api_key);
      expect(only(world.api.platforms).retired).toEqual([]);
    });

    test("stay acknowledged if the answer to the acknowledgment was lost", async ({ world }) => {
      world.api.loseAnswer("POST /internal/v1/platforms");
      await world.folders.write("all.yaml", tenants(), platform());
      await world.start();
      await world.reaches("Platform", "shop", "Active");
      expect(only(world.api.platforms)).toMatchObject({ undelivered: false, retired: [] });
    });

    test("rotate only once if the answer to the rotation was lost", async ({ world }) => {
      await world.start();
      await world.declareAgent();
      world.api.loseAnswer("POST /internal/v1/platforms");
      await rm(join(world.folders.secrets, "default", "shop-credentials.yaml"));
      await until("the Secret is back", async () => (await world.credentials()) !== undefined);
      await until("it is acknowledged", () => !only(world.api.platforms).undelivered);
      expect(only(world.api.platforms).retired).toHaveLength(1);
      expect((await world.credentials())?.api_key).toBe(only(world.api.platforms).api_key);
    });

    test("stay unacknowledged until they are stored", async ({ world }) => {
      world.api.fail("POST /internal/v1/platforms", "unavailable");
      await world.folders.write("all.yaml", tenants(), platform());
      await world.start();
      await until("the Secret is there", async () => (await world.credentials()) !== undefined);
      await world.reaches("Platform", "shop", "ApiUnavailable");
      expect(only(world.api.platforms).undelivered).toBe(true);
      world.api.heal();
      await until("it is acknowledged", () => !only(world.api.platforms).undelivered);
    });
  });
});
