import { copyFile, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { deleteUndecided } from "../../src/delegations/requests/delete_undecided.ts";
import { VaultCertificateExpired } from "../../src/vault/certificate_fault.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { OPERATOR_TOKEN, type Person, startApi, type TestApi } from "../support/api.ts";
import { approve } from "../support/platform_world.ts";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import {
  agent,
  condition,
  delegation,
  nameCluster,
  type OperatorFolder,
  operatorFolder,
  platform,
} from "./operator_folder.ts";

const examples = join(import.meta.dirname, "../../docs/examples/quickstart");

describe("the operator with the real API", () => {
  let api: TestApi;
  let world: OperatorFolder;
  let person: Person;
  beforeEach(async () => {
    [api, world] = await Promise.all([startApi(), operatorFolder()]);
    Object.assign(world.config, {
      API_URL: api.url,
      OPERATOR_API_URL: api.operatorUrl,
      OPERATOR_TOKEN,
    });
    // Sets the cluster id for which the people in these tests accept the namespace.
    await nameCluster(world, "c1");
    person = await api.person();
  });
  afterEach(async () => {
    await world.dispose();
    await api.stop();
  });

  const bound = () => tenants({ default: `accountEmail: ${person.email}` });
  const credentials = async () => (await world.credentials()) ?? {};
  const agentsOf = async ({ connection_id, api_key }: Record<string, string>) =>
    api.client().get(`/v1/service/connections/${connection_id}/agents`, {
      headers: { "x-service-api-key": api_key ?? "" },
    });

  test("accepts the principals that a Platform lists, refuses an unknown principal, and ends acceptances", async () => {
    const stranger = await api.person();
    await world.folders.write("tenants.yaml", bound());
    await world.folders.write("platform.yaml", platform());
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    const path = `/v1/service/platforms/${(await credentials()).platform_id}/accepted-principals`;
    const accepted = async () => (await person.client.get(path)).body.items as unknown[];
    const list = (humanID: string) =>
      world.folders.write(
        "platform.yaml",
        platform({ acceptedPrincipals: [{ humanID, scopes: ["data:read"] }] }),
      );
    await list("0".repeat(32));
    const stalled = await world.reaches("Platform", "shop", "InvalidSpec");
    expect(condition(stalled, "Ready")?.message).toContain("not a root identity of the registry");
    expect(await accepted()).toEqual([]);
    await list(stranger.humanId);
    await until("it is accepted", async () => (await accepted()).length === 1);
    expect(await accepted()).toMatchObject([{ human_id: stranger.humanId, scopes: ["data:read"] }]);
    await world.folders.write("platform.yaml", platform());
    await until("the acceptance has ended", async () => (await accepted()).length === 0);
  });

  test("completes the quickstart: registration, a narrower approval, a revocation and the deletion", async () => {
    for (const file of await readdir(examples)) {
      await copyFile(join(examples, file), join(world.folders.manifests, file));
    }
    const text = await readFile(join(examples, "tenants.yaml"), "utf8");
    await world.folders.write("tenants.yaml", text.replace("owner@example.test", person.email));
    await world.start();
    expect(await world.folders.errors()).toEqual([]);
    const waiting = await world.reaches("Delegation", "shop-bot", "AwaitingApproval");
    const answer = await approve(person, String(waiting.status?.requestID), ["data:read", "payments:send"]);
    const active = await world.reaches("Delegation", "shop-bot", "Active");
    expect(active.status).toMatchObject({
      certID: answer.body.cert_id,
      approvedScope: ["data:read", "payments:send"],
      certStatus: "Active",
      decidedBy: person.email,
      expiresAt: answer.body.expires_at,
    });
    const { status } = await world.state("Agent", "shop-bot");
    const { body } = await agentsOf(await credentials());
    expect(JSON.stringify(body)).toContain(String(status?.agentID));

    await person.client.post(`/v1/service/delegations/${String(answer.body.cert_id)}/revoke`, {
      reason: "enough",
    });
    await world.stop();
    await world.start();
    const revoked = await world.reaches("Delegation", "shop-bot", "Revoked");
    expect(condition(revoked, "Ready")?.message).toContain("enough");

    const last = await credentials();
    for (const file of ["delegation.yaml", "agent.yaml", "platform.yaml"]) await world.folders.remove(file);
    await world.gone("Platform", "shop");
    expect(await world.credentials()).toBeUndefined();
    expect((await agentsOf(last)).status).toBe(401);
  });

  test("replaces a lost key once, and publishes a key that was rotated in the console", async () => {
    await world.folders.write("all.yaml", bound(), platform());
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    const first = await credentials();
    await rm(join(world.folders.secrets, "default", "shop-credentials.yaml"));
    await until("the Secret is back", async () => (await credentials()).api_key !== undefined);
    const second = await credentials();
    expect(second).toMatchObject({ platform_id: first.platform_id, signing_secret: first.signing_secret });
    expect([(await agentsOf(first)).status, (await agentsOf(second)).status]).toEqual([401, 200]);
    await person.client.post(`/v1/service/connections/${first.connection_id}/rotate-key`, {});
    await world.folders.write("all.yaml", bound(), platform({ displayName: "Touched" }));
    await until("the Secret contains the key", async () => (await credentials()).api_key !== second.api_key);
    expect((await agentsOf(await credentials())).status).toBe(200);
  });

  test("requests every constraint that the schema allows", async () => {
    const constraints = [
      { type: "geo_circle", lat: 47.4, lon: 8.5, radius_m: 500 },
      {
        type: "geo_polygon",
        points: [
          [0, 0],
          [0, 1.5],
          [1, 1],
        ],
      },
      {
        type: "geo_bbox",
        min_lat: -1,
        min_lon: -1.5,
        max_lat: 1,
        max_lon: 1,
        min_alt_m: 0,
        max_alt_m: 120.5,
      },
      { type: "time_window", start: "09:00", end: "17:30", tz: "Europe/Zurich" },
      { type: "max_speed_mps", max_mps: 1.5 },
      { type: "max_amount", max_amount: 250, currency: "EUR" },
      { type: "max_rate", count: 10, window_s: 60 },
      { type: "resource_path", resource_id: "git:example/widgets", path_prefix: "/src" },
    ];
    await world.folders.write("all.yaml", bound(), platform(), agent(), delegation({ constraints }));
    await world.start();
    const state = await world.reaches("Delegation", "bot", "AwaitingApproval");
    await approve(person, String(state.status?.requestID), ["data:read"]);
    await world.reaches("Delegation", "bot", "Active");
  });

  test.each([
    [
      "constraints that contradict each other",
      {
        constraints: [
          { type: "max_amount", max_amount: 1, currency: "EUR" },
          { type: "max_amount", max_amount: 1, currency: "USD" },
        ],
      },
      "currencies",
    ],
    ["an expiry that is too far away", { ttl: undefined, expiresAt: "2200-01-01T00:00:00Z" }, "too late"],
  ])("reports %s", async (_, spec, message) => {
    await world.folders.write("all.yaml", bound(), platform(), agent(), delegation(spec));
    await world.start();
    const state = await world.reaches("Delegation", "bot", "InvalidSpec");
    expect(condition(state, "Ready")?.message).toContain(message);
  });

  test("lets a Delegation disappear whose request ended, undecided, long before the operator returned", async () => {
    await world.folders.write("all.yaml", bound(), platform(), agent());
    await world.folders.write("delegation.yaml", delegation());
    await world.start();
    const waiting = await world.reaches("Delegation", "bot", "AwaitingApproval");
    await world.stop();
    const request = { request_id: String(waiting.status?.requestID) };
    await api
      .db("delegation_requests")
      .where(request)
      .update({ expires_at: addSeconds(api.clock.now(), -1) });
    await deleteUndecided({ db: api.db, now: addSeconds(api.clock.now(), 40_000 * 86_400), keptDays: 1 });
    await world.start();
    const ended = await world.reaches("Delegation", "bot", "Expired");
    expect(condition(ended, "Ready")?.message).toContain("Nobody decided");
    await world.folders.remove("delegation.yaml");
    await world.gone("Delegation", "bot");
  });

  test("registers only one platform for a personal account", async () => {
    const second = platform({}, { name: "second" });
    await world.folders.write("all.yaml", bound(), platform());
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    await world.folders.write("second.yaml", second);
    await world.reaches("Platform", "second", "PlatformLimit");
  });

  test("continues after the vault was unavailable", async () => {
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    await world.folders.write("all.yaml", bound(), platform(), agent());
    await world.start();
    await world.reaches("Agent", "bot", "VaultUnavailable");
    api.vault.failure = undefined;
    await world.reaches("Agent", "bot", "Active");
  });

  test("names an expired certificate as the reason why the vault does not sign", async () => {
    api.vault.failure = new VaultCertificateExpired("The key vault's certificate has expired", undefined);
    await world.folders.write("all.yaml", bound(), platform(), agent());
    await world.start();
    const { status } = await world.reaches("Agent", "bot", "VaultUnavailable");
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    expect(ready?.message).toContain("a certificate between it and the service has expired");
    api.vault.failure = undefined;
    await world.reaches("Agent", "bot", "Active");
  });
});
