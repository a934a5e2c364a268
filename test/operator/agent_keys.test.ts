import { rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { stringify } from "yaml";
import { endKey } from "../support/fake_operator_registry.ts";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import {
  agent,
  condition,
  delegation,
  type OperatorFolder,
  only,
  platform,
  folderTest as test,
} from "./operator_folder.ts";

const SECRET = "bot-agent-key";
const keyCalls = ({ api }: OperatorFolder) => api.callsTo("PUT", "/key");
const pathOf = ({ folders }: OperatorFolder) => join(folders.secrets, "default", `${SECRET}.yaml`);

/** Waits until the Secret has a key that is not `former`, and the operator has confirmed it. */
async function newKey(world: OperatorFolder, former?: string): Promise<Record<string, string>> {
  let secret: Record<string, string> | undefined;
  await until("the Secret has a confirmed key", async () => {
    secret = await world.credentials(SECRET);
    const { key } = only(world.api.agents);
    if (secret === undefined || secret.api_key === former) return false;
    return key?.undelivered === false && key.api_key === secret.api_key;
  });
  return secret ?? {};
}

describe.concurrent("an Agent in a folder", () => {
  test("gets a Secret with its own API key, which appears nowhere else", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const state = await world.reaches("Agent", "bot", "Active");
    const registered = only(world.api.agents);
    const secret = await newKey(world);
    expect(secret).toEqual({
      api_key: registered.key?.api_key,
      api_key_prefix: registered.key?.api_key_prefix,
      agent_id: registered.agent_id,
      connection_id: only(world.api.platforms).connection_id,
      base_url: world.api.url,
    });
    expect((await stat(pathOf(world))).mode & 0o777).toBe(0o600);
    expect(state.status).toMatchObject({
      apiKeyPrefix: secret.api_key_prefix,
      credentialsSecretName: SECRET,
    });
    expect(condition(state, "CredentialsPublished")?.status).toBe("True");
    expect(JSON.stringify(state) + (await world.metrics())).not.toContain(secret.api_key);
    expect(keyCalls(world)).toHaveLength(2);
  });

  test("gets one key although the answer, the operator and the confirmation are lost", async ({ world }) => {
    let answers = 0;
    world.api.intercept((_, path) => {
      if (path.endsWith("/key")) answers += 1;
      return path.endsWith("/key") && answers <= 2 ? "lost" : undefined;
    });
    await world.start();
    await world.declareAgent();
    const first = await newKey(world);
    const { key } = only(world.api.agents);
    await world.stop();
    Object.assign(key ?? {}, { undelivered: true });
    await world.start();
    expect(await newKey(world)).toEqual(first);
    await world.stop();
    await rm(pathOf(world));
    Object.assign(key ?? {}, { undelivered: true });
    await world.start();
    expect(await newKey(world)).toEqual(first);
    expect(only(world.api.agents).ended).toEqual([]);
  });

  test("gets a new key if its Secret is lost or changed, or if a person ends the key", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const first = await newKey(world);
    const touch = (time: number) =>
      world.folders.write(
        "agent.yaml",
        agent({}, { annotations: { "deputize.io/reconcile-at": `${time}` } }),
      );
    await rm(pathOf(world));
    await touch(1);
    const second = await newKey(world, first.api_key);
    const text = stringify({ apiVersion: "v1", kind: "Secret", data: {} });
    await writeFile(pathOf(world), text);
    await touch(2);
    await world.reaches("Agent", "bot", "SecretNotOwned");
    await rm(pathOf(world));
    await touch(3);
    const third = await newKey(world, second.api_key);
    expect(only(world.api.agents).ended).toEqual(
      [first, second].map(({ api_key_prefix: prefix }) => ({ prefix, graceSeconds: 0 })),
    );
    endKey(only(world.api.agents));
    await touch(4);
    await newKey(world, third.api_key);
  });

  test("gets a new key at its annotation, and the former key stays valid for the Platform's grace", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const { api_key, api_key_prefix: prefix } = await newKey(world);
    await world.folders.write("platform.yaml", platform({ keyRotation: { every: "720h", grace: "1h" } }));
    await until("the Platform has its rotation", async () => {
      return (await world.state("Platform", "shop")).status?.observedGeneration === 2;
    });
    const asked = agent({}, { annotations: { "deputize.io/rotate-key": "leaked" } });
    await world.folders.write("agent.yaml", asked);
    await newKey(world, api_key);
    const registered = only(world.api.agents);
    expect(registered.ended).toEqual([{ prefix, graceSeconds: 3600 }]);
    expect(registered.key?.rotation_request).toBe("leaked");
    await until("the status has the request", async () => {
      return (await world.state("Agent", "bot")).status?.lastRotationRequest === "leaked";
    });
  });

  test("leaves a Secret of somebody else as it is, and its delegations work", async ({ world }) => {
    await world.start();
    const theirs = stringify({
      apiVersion: "v1",
      kind: "Secret",
      metadata: {},
      data: { password: "c2VjcmV0" },
    });
    await world.folders.write("tenants.yaml", tenants());
    await world.folders.write("platform.yaml", platform());
    await world.reaches("Platform", "shop", "Active");
    await writeFile(pathOf(world), theirs);
    await world.folders.write("agent.yaml", agent());
    const state = await world.reaches("Agent", "bot", "SecretNotOwned");
    expect(condition(state, "Ready")?.message).toContain(SECRET);
    expect(condition(state, "CredentialsPublished")?.reason).toBe("SecretNotOwned");
    expect(only(world.api.agents).key).toBeNull();
    await world.folders.write("delegation.yaml", delegation());
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    expect(await world.credentials(SECRET)).toEqual({ password: "secret" });
  });

  test("stays as it is under an API that is one version older, and gets its key after the update", async ({
    world,
  }) => {
    world.api.version.isFormer = true;
    await world.start();
    await world.declareAgent();
    expect(await world.credentials(SECRET)).toBeUndefined();
    expect(keyCalls(world)).toEqual([]);
    world.api.version.isFormer = false;
    world.api.fail("PUT /internal/v1/agents", "not_found", 1);
    await world.folders.write("agent.yaml", agent({}, { annotations: { "deputize.io/reconcile-at": "1" } }));
    await newKey(world);
    await world.reaches("Agent", "bot", "Active");
    expect(keyCalls(world)).toHaveLength(3);
  });

  test("ends its key and removes its Secret when it is deleted, whatever its deletion policy", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const { api_key_prefix: prefix } = await newKey(world);
    world.api.fail("DELETE /internal/v1/agents", { status: 503, body: "" }, 1);
    await world.folders.remove("agent.yaml");
    await world.gone("Agent", "bot");
    expect(await world.credentials(SECRET)).toBeUndefined();
    expect(only(world.api.agents)).toMatchObject({ key: null, disabled: false, ended: [{ prefix }] });
  });

  test("ends its key although an API process of the former version answers the first call", async ({
    world,
  }) => {
    await world.start();
    await world.declareAgent();
    const { api_key_prefix: prefix } = await newKey(world);
    world.api.fail("DELETE /internal/v1/agents", "not_found", 1);
    await world.folders.remove("agent.yaml");
    await world.gone("Agent", "bot");
    expect(only(world.api.agents)).toMatchObject({ key: null, ended: [{ prefix }] });
  });

  test("shows why it gets no key", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const { api_key } = await newKey(world);
    await rm(pathOf(world));
    world.api.fail("PUT /internal/v1/agents", "action_limited");
    await world.folders.write("agent.yaml", agent({}, { annotations: { "deputize.io/reconcile-at": "1" } }));
    const state = await world.reaches("Agent", "bot", "LimitReached");
    expect(condition(state, "KeyReady")?.status).toBe("True");
    expect(only(world.api.agents).key?.api_key).toBe(api_key);
  });
});
