import { readFile } from "node:fs/promises";
import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import { operatorMetrics } from "../support/operator_metrics.ts";
import { until } from "../support/process.ts";
import { delegation, folderTest } from "./operator_folder.ts";

describe.concurrent("the operator's metrics", () => {
  const metricsTest = folderTest.extend("line", ({ world }) => async (start: string) => {
    const lines = (await world.metrics()).split("\n");
    return lines
      .find((each) => each.startsWith(start))
      ?.split(" ")
      .at(-1);
  });
  const objects = (kind: string, reason: string) =>
    `deputize_operator_objects{kind="${kind}",reason="${reason}"}`;
  const EXPIRY = 'deputize_delegation_expiry_timestamp_seconds{namespace="default",name="bot"}';

  test("match the documentation exactly", async () => {
    const registry = new Registry();
    operatorMetrics(registry).watches(() => []);
    const named = registry.getMetricsAsArray().map(({ name }) => name);
    const page = await readFile(new URL("../../docs/operator.md", import.meta.url), "utf8");
    const section = page.slice(page.indexOf("## What to watch"), page.indexOf("## Without a cluster"));
    const documented = [...section.matchAll(/^\| `([a-z_]+)/gm)].map(([, name]) => name);
    expect(documented.sort()).toEqual(named.sort());
  });

  metricsTest(
    "count objects by reason, and show each certificate's end until the certificate is gone",
    async ({ world, line }) => {
      await world.start();
      const request = await world.declareDelegation();
      const awaiting = () => line(objects("Delegation", "AwaitingApproval"));
      await until("it counts as waiting", async () => (await awaiting()) === "1");
      expect(await line(objects("Platform", "Active"))).toBe("1");
      expect(await line(EXPIRY)).toBeUndefined();
      world.api.approve(request, ["data:read"], new Date("2099-01-01T00:00:00.700Z"));
      await world.reaches("Delegation", "bot", "Active");
      await until("its end is shown", async () => (await line(EXPIRY)) === "4070908800");
      expect(await awaiting()).toBeUndefined();
      expect(await line('leader_election_master_status{name="deputize-operator"}')).toBe("1");
      await world.folders.write("delegation.yaml", delegation({ revoked: true }));
      await until(
        "a revoked delegation no longer has an end",
        async () => (await line(EXPIRY)) === undefined,
      );
      await world.folders.remove("delegation.yaml");
      await world.gone("Delegation", "bot");
      const revoked = 'deputize_operator_urgent_seconds_count{what="revoke"}';
      await until("both are counted", async () => (await line(revoked)) === "2");
      await world.stop();
      expect(await line(objects("Platform", "Active"))).toBeUndefined();
      expect(await line('leader_election_master_status{name="deputize-operator"}')).toBe("0");
    },
  );

  metricsTest(
    "count calls of the API by name and result, and differences found by comparing",
    async ({ world, line }) => {
      await world.start();
      await world.declareDelegation();
      const calls = (name: string, result: string) =>
        line(`deputize_operator_api_call_seconds_count{call="${name}",result="${result}"}`);
      expect(await calls("claimLeadership", "ok")).toBe("1");
      expect(await calls("putDelegation", "ok")).toBe("1");
      await world.api.goAway();
      await until(
        "an outage is counted",
        async () => (await calls("readState", "unavailable")) !== undefined,
      );
      await world.api.comeBack();
      expect(await world.metrics()).not.toContain("operator-token");
    },
  );
});
