import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { condition, OWNER, only, platform, folderTest as test } from "./operator_folder.ts";

describe.concurrent("platforms in a folder", () => {
  test("register at the API, and store their credentials in a Secret", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const state = await world.state("Platform", "shop");
    const registered = only(world.api.platforms);
    expect(registered.undelivered).toBe(false);
    expect(registered.desired).toMatchObject({
      account_email: OWNER,
      name: "Shop",
      surface_type: "agentic_api",
    });
    expect(registered.desired).not.toHaveProperty("callback_url");
    expect([...world.api.platforms.keys()]).toEqual([
      `${world.operator().clusterId()}.${state.metadata.uid}`,
    ]);
    expect(state.metadata.finalizers).toEqual(["deputize.io/revoke"]);
    expect(state.status).toMatchObject({
      observedGeneration: 1,
      platformID: registered.platform_id,
      connectionID: registered.connection_id,
      apiKeyPrefix: registered.api_key_prefix,
      credentialsSecretName: "shop-credentials",
      conditions: expect.arrayContaining(
        ["Ready", "Registered", "CredentialsPublished"].map((type) =>
          expect.objectContaining({ type, status: "True" }),
        ),
      ),
    });
    expect(await world.credentials()).toEqual({
      api_key: registered.api_key,
      api_key_prefix: registered.api_key_prefix,
      connection_id: registered.connection_id,
      platform_id: registered.platform_id,
      signing_secret: registered.signing_secret,
      webhook_signing_secret: registered.webhook_signing_secret,
      base_url: world.api.url,
      workspace_id: `account of ${OWNER}`,
      verifier_id: registered.verifier_id,
    });
    const path = join(world.folders.secrets, "default", "shop-credentials.yaml");
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(JSON.stringify(state)).not.toContain(registered.api_key);
  });

  test("follow changes of their manifest, and remove a callback URL that is no longer declared", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const callbackUrl = "https://shop.example.test/hooks";
    await world.folders.write("platform.yaml", platform({ displayName: "New", callbackUrl }));
    await until("the callback is set", () => only(world.api.platforms).callback_url === callbackUrl);
    await world.folders.write("platform.yaml", platform({ displayName: "New" }));
    await until("it is removed", () => only(world.api.platforms).callback_url === null);
    expect(only(world.api.platforms).desired.name).toBe("New");
    await until(
      "it is ready",
      async () => (await world.state("Platform", "shop")).status?.observedGeneration === 3,
    );
    expect((await world.state("Platform", "shop")).status).not.toHaveProperty("callbackUrl");
  });

  test("send the complete list of accepted principals with every change", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    expect(only(world.api.platforms).desired.accepted_principals).toEqual([]);
    const listed = [
      { humanID: "a".repeat(32), scopes: ["data:read"], acceptedUntil: "2030-01-01T00:00:00Z" },
      { humanID: "b".repeat(32), scopes: ["custom:orders:refund"] },
    ];
    await world.folders.write("platform.yaml", platform({ acceptedPrincipals: listed }));
    const accepted = () => only(world.api.platforms).desired.accepted_principals;
    await until("they are accepted", () => accepted().length === 2);
    expect(accepted()).toEqual([
      { human_id: "a".repeat(32), scopes: ["data:read"], accepted_until: "2030-01-01T00:00:00Z" },
      { human_id: "b".repeat(32), scopes: ["custom:orders:refund"] },
    ]);
    await world.folders.write("platform.yaml", platform());
    await until("they are taken back", () => accepted().length === 0);
  });

  test("send the complete words for custom scopes with every change", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const sent = () => only(world.api.platforms).desired.scope_descriptions;
    expect(sent()).toEqual({});
    const [scope, label, description] = ["custom:orders:refund", "Refund an order", "Pays money back"];
    const scopeDescriptions = [{ scope, label, description }];
    await world.folders.write("platform.yaml", platform({ scopeDescriptions }));
    await until("they are sent", () => Object.keys(sent() ?? {}).length === 1);
    expect(sent()).toEqual({ [scope]: { label, description, sensitive: false } });
    await world.folders.write("platform.yaml", platform());
    await until("they are taken back", () => Object.keys(sent() ?? {}).length === 0);
  });

  test("send how explanations keep values only if the object says so", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const sent = () => only(world.api.platforms).desired.explanation_values;
    expect(sent()).toBeUndefined();
    await world.folders.write("platform.yaml", platform({ explanationValues: "hashed" }));
    await until("it is sent", () => sent() === "hashed");
  });

  test("wait until their namespace is bound, the account exists and its onboarding is complete", async ({
    world,
  }) => {
    world.api.accounts.clear();
    await world.folders.write("platform.yaml", platform());
    await world.start();
    const unbound = await world.reaches("Platform", "shop", "NamespaceNotBound");
    expect(condition(unbound, "Ready")?.message).toContain("no entry");
    expect(condition(unbound, "Stalled")?.status).toBe("True");
    expect(world.api.callsTo("PUT", "/platforms")).toEqual([]);
    await world.folders.write("tenants.yaml", tenants({ default: "accountEmail: nobody" }));
    const message = async () => condition(await world.state("Platform", "shop"), "Ready")?.message ?? "";
    await until("the message reports the faulty entry", async () => (await message()).includes("faulty"));
    await world.folders.write("tenants.yaml", tenants());
    await until("the message reports the missing account", async () =>
      (await message()).includes("No account"),
    );
    world.api.accounts.set(OWNER, { onboarded: true, platformLimit: 1 });
    await world.reaches("Platform", "shop", "Active");
  });

  test("report immediately that their namespace is now bound to a different account, or no longer bound", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const registered = only(world.api.platforms);
    world.api.accounts.set("other@example.test", { onboarded: true, platformLimit: 1 });
    await world.folders.write("tenants.yaml", tenants({ default: "accountEmail: other@example.test" }));
    await world.reaches("Platform", "shop", "ExternalConflict");
    await world.folders.write("tenants.yaml", tenants({ default: "accountEmail: nobody@example.test" }));
    await world.reaches("Platform", "shop", "NamespaceNotBound");
    await world.folders.write("tenants.yaml", tenants());
    await world.reaches("Platform", "shop", "Active");
    expect(only(world.api.platforms)).toBe(registered);
    expect((await world.credentials())?.api_key).toBe(registered.api_key);
  });

  test("stay within the ceiling of the namespace and the platform limit of the account", async ({
    world,
  }) => {
    await world.folders.write(
      "tenants.yaml",
      tenants({ default: `accountEmail: ${OWNER}\nceiling: ["data:*", "payments:send"]` }),
    );
    await world.folders.write("platform.yaml", platform());
    await world.start();
    const state = await world.reaches("Platform", "shop", "CeilingExceeded");
    expect(condition(state, "Ready")?.message).toContain("custom:orders:refund");
    expect(world.api.callsTo("PUT", "/platforms")).toEqual([]);
    await world.folders.write("platform.yaml", platform({ defaultAllowedScopes: ["data:read"] }));
    await world.reaches("Platform", "shop", "Active");
    world.api.accounts.set(OWNER, { onboarded: true, platformLimit: 1 });
    const second = platform({ defaultAllowedScopes: ["data:read"] }, { name: "second" });
    await world.folders.write("second.yaml", second);
    await world.reaches("Platform", "second", "PlatformLimit");
    expect(world.api.platforms.size).toBe(1);
  });

  test("accept principals only within the namespace's ceiling, and keep earlier acceptances otherwise", async ({
    world,
  }) => {
    const ceiling = (scopes: string) => tenants({ default: `accountEmail: ${OWNER}\nceiling: [${scopes}]` });
    await world.folders.write("tenants.yaml", ceiling('"data:*"'));
    const accepting = (scope: string) =>
      platform({
        defaultAllowedScopes: ["data:read"],
        acceptedPrincipals: [{ humanID: "a".repeat(32), scopes: [scope] }],
      });
    await world.folders.write("platform.yaml", accepting("data:share"));
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    await world.folders.write("platform.yaml", accepting("payments:send"));
    const state = await world.reaches("Platform", "shop", "CeilingExceeded");
    expect(condition(state, "Ready")?.message).toContain("payments:send");
    const accepted = () => only(world.api.platforms).desired.accepted_principals;
    expect(accepted()).toMatchObject([{ scopes: ["data:share"] }]);
    await world.folders.write("tenants.yaml", ceiling('"data:*", "payments:send"'));
    await world.reaches("Platform", "shop", "Active");
    expect(accepted()).toMatchObject([{ scopes: ["payments:send"] }]);
  });

  test("report unknown scopes", async ({ world }) => {
    await world.folders.write("all.yaml", tenants(), platform({ defaultAllowedScopes: ["data:fly"] }));
    await world.start();
    const state = await world.reaches("Platform", "shop", "InvalidScopes");
    expect(condition(state, "Ready")?.message).toContain("data:fly");
    expect(world.api.platforms.size).toBe(0);
  });

  test("report that the API refuses their spec", async ({ world }) => {
    await world.folders.write("all.yaml", tenants(), platform({ callbackUrl: "http://shop.example.test" }));
    await world.start();
    const state = await world.reaches("Platform", "shop", "InvalidSpec");
    expect(condition(state, "Stalled")?.status).toBe("True");
    await world.folders.write("all.yaml", tenants(), platform());
    await world.reaches("Platform", "shop", "Active");
  });

  test("report that the service knows them with different values", async ({ world }) => {
    world.api.fail("PUT /internal/v1/platforms", "external_conflict");
    await world.folders.write("all.yaml", tenants(), platform());
    await world.start();
    await world.reaches("Platform", "shop", "ExternalConflict");
  });

  test("neither replace another owner's Secret nor register while that Secret exists", async ({ world }) => {
    const path = join(world.folders.secrets, "default", "shop-credentials.yaml");
    await mkdir(join(world.folders.secrets, "default"), { recursive: true });
    const foreign =
      "apiVersion: v1\nkind: Secret\nmetadata: {name: shop-credentials}\ntype: Opaque\ndata: {a: Yg==}\n";
    await writeFile(path, foreign);
    await world.folders.write("all.yaml", tenants(), platform());
    await world.start();
    await world.reaches("Platform", "shop", "SecretNotOwned");
    expect(await readFile(path, "utf8")).toBe(foreign);
    expect(world.api.platforms.size).toBe(0);
    await rm(path);
    await world.reaches("Platform", "shop", "Active");
  });

  test("replace their key without registering again if their Secret is missing or damaged", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const path = join(world.folders.secrets, "default", "shop-credentials.yaml");
    const first = only(world.api.platforms).api_key;
    await rm(path);
    await until("the Secret is back", async () => (await world.credentials()) !== undefined);
    const second = only(world.api.platforms).api_key;
    expect(second).not.toBe(first);
    expect((await world.credentials())?.api_key).toBe(second);
    await until("it is acknowledged", () => !only(world.api.platforms).undelivered);
    const damaged = (await readFile(path, "utf8")).replace(/ {2}signing_secret: .*\n/, "");
    await writeFile(path, damaged);
    await until("the key is replaced", () => only(world.api.platforms).api_key !== second);
    await until("the Secret is complete", async () => {
      return (await world.credentials())?.api_key === only(world.api.platforms).api_key;
    });
    expect(world.api.platforms.size).toBe(1);
  });

  test("end a lost key immediately, whatever the grace period is", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const keyRotation = { every: "720h", grace: "1h" };
    await world.folders.write("platform.yaml", platform({ keyRotation }));
    await until(
      "the manifest is read",
      async () => (await world.state("Platform", "shop")).metadata.generation === 2,
    );
    await rm(join(world.folders.secrets, "default", "shop-credentials.yaml"));
    await until("the key is replaced", () => only(world.api.platforms).retired.length === 1);
    expect(only(world.api.platforms).retired[0]?.graceSeconds).toBe(0);
  });

  test("move their credentials to a renamed Secret without a new key", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const before = await world.credentials();
    await world.folders.write("platform.yaml", platform({ credentialsSecretName: "elsewhere" }));
    await until("it has moved", async () => (await world.credentials("elsewhere")) !== undefined);
    expect(await world.credentials("elsewhere")).toEqual(before);
    await until("the old one is gone", async () => (await world.credentials()) === undefined);
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
  });

  test("publish a key that was rotated in the console", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    world.api.rotateKey([...world.api.platforms.keys()][0] as string);
    await world.folders.write("platform.yaml", platform({ displayName: "Touched" }));
    await until("the Secret contains the key", async () => {
      return (await world.credentials())?.api_key === only(world.api.platforms).api_key;
    });
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
  });

  test("replace their key when it is due, with the declared grace period", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const registered = only(world.api.platforms);
    registered.api_key_issued_at = new Date(Date.now() - 59 * 60_000 - 58_000).toISOString();
    const { api_key_prefix: old } = registered;
    await world.folders.write("platform.yaml", platform({ keyRotation: { every: "1h", grace: "30m" } }));
    await until("the key is renewed", () => only(world.api.platforms).retired.length === 1);
    expect(only(world.api.platforms).retired).toEqual([{ prefix: old, graceSeconds: 1800 }]);
    await until("the Secret contains the key", async () => {
      return (await world.credentials())?.api_key === only(world.api.platforms).api_key;
    });
  });

  test("keep a key that is young by the API's clock, although this machine's clock is 40 days ahead", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    world.api.clock.shiftMs = -40 * 86_400_000;
    const registered = only(world.api.platforms);
    registered.api_key_issued_at = new Date(Date.now() + world.api.clock.shiftMs - 60_000).toISOString();
    const generation = async () =>
      (await world.reaches("Platform", "shop", "Active")).status?.observedGeneration;
    const before = Number(await generation());
    await world.folders.write("platform.yaml", platform({ keyRotation: { every: "1h", grace: "30m" } }));
    await until("the change is reconciled", async () => Number(await generation()) > before);
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
    expect(await world.operator().isReady()).toBe(false);
  });

  test("report a reached limit, and replace a lost key when the API allows it again", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const { api_key: lost } = only(world.api.platforms);
    const message = "The API key was replaced too often";
    const body = JSON.stringify({ error: { code: "action_limited", message, status: 429 } });
    const rotate = "POST /internal/v1/platforms";
    world.api.fail(rotate, { status: 429, body, headers: { "retry-after": "1" } }, 2);
    await rm(join(world.folders.secrets, "default", "shop-credentials.yaml"));
    const limited = await world.reaches("Platform", "shop", "LimitReached");
    expect(condition(limited, "Ready")?.message).toBe(message);
    expect(condition(limited, "CredentialsPublished")?.status).toBe("False");
    await world.reaches("Platform", "shop", "Active");
    expect(world.api.callsTo("POST", "rotate")).toHaveLength(3);
    expect((await world.credentials())?.api_key).not.toBe(lost);
  });

  test("follow a new name of their verifier, and complete the Secret of an earlier version, without a new key", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const path = join(world.folders.secrets, "default", "shop-credentials.yaml");
    const registered = only(world.api.platforms);
    registered.verifier_id = "shop.example";
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replaceAll(/^ +(verifier|workspace)_id: .*\n/gm, ""));
    await until("the Secret has the ids", async () => {
      const secret = await world.credentials();
      return secret?.verifier_id === "shop.example" && secret.workspace_id !== undefined;
    });
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
  });

  test("wait for their turn while somebody else changes their Secret all the time", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const path = join(world.folders.secrets, "default", "shop-credentials.yaml");
    const text = await readFile(path, "utf8");
    const changed = text.replace(/base_url: .*/, "base_url: https://rival.example.test");
    expect(changed).not.toBe(text);
    await until("visits are delayed", async () => {
      await writeFile(path, changed);
      return /visits_delayed_total\{kind="Platform"\} [1-9]/.test(await world.metrics());
    });
    await until("the Secret is right again", async () => {
      const secret = await world.credentials();
      return secret?.base_url === world.config.API_URL;
    });
    expect(world.api.callsTo("POST", "rotate")).toEqual([]);
  });

  test("register only after they are no longer suspended", async ({ world }) => {
    await world.folders.write("all.yaml", tenants(), platform({ suspend: true }));
    await world.start();
    const state = await world.reaches("Platform", "shop", "Suspended");
    expect([condition(state, "Stalled")?.status, condition(state, "Reconciling")?.status]).toEqual([
      "False",
      "False",
    ]);
    expect(world.api.platforms.size).toBe(0);
    await world.folders.write("all.yaml", tenants(), platform());
    await world.reaches("Platform", "shop", "Active");
  });

  test("report their removal in the account, and are not registered again", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    only(world.api.platforms).removed = true;
    await world.folders.write("platform.yaml", platform({ displayName: "Touched" }));
    await world.reaches("Platform", "shop", "Revoked");
    expect(world.api.platforms.size).toBe(1);
  });
});
