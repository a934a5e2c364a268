import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, test as baseTest, beforeAll, describe, expect } from "vitest";
import { isClientSecret } from "../../../src/connect/signing_secret.ts";
import type { AnyObject, DelegationStatus, PlatformStatus } from "../../../src/operator/kinds.ts";
import { decodeDelegationCert, delegationSignBytes } from "../../../src/protocol/documents/certificate.ts";
import { verifyHybrid } from "../../../src/protocol/keys/hybrid.ts";
import type { TestApi } from "../../support/api.ts";
import { testCluster } from "../../support/kubernetes/existing.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import type { Kubernetes, KubernetesUser } from "../../support/kubernetes/server.ts";
import { approve, createAgent, registerPlatform } from "../../support/platform_world.ts";
import { until } from "../../support/process.ts";
import { connect } from "../../support/two_companies.ts";
import { agent, delegation, platform } from "../operator_folder.ts";
import { type RealCluster, startRealCluster } from "./real_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const ANN: KubernetesUser = { name: "ann@example.test", group: "system:masters" };
const { missing, isShared, open } = await testCluster();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);
if (isShared) console.error("SKIPPED with KUBECONFIG_TEST: tests that remove the cluster's policies");

const statusOf = (object: AnyObject) => object.status as DelegationStatus;

describe.skipIf(missing !== undefined)("declared objects in a cluster", { timeout: 120_000 }, () => {
  let real: RealCluster;
  let kubernetes: Kubernetes;
  let api: TestApi;

  beforeAll(async () => {
    real = await startRealCluster(await open());
    ({ kubernetes, api } = real);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => real?.stop());

  /** Each test has its own operator, namespace and account. */
  const test = baseTest.extend("life", async ({ onTestFinished }) => {
    const { world, person, cluster } = await real.open();
    onTestFinished(world.dispose);
    return {
      ...{ world, person, cluster },
      accept: (body: object = {}) =>
        person.client.call("PUT", `/v1/service/namespace-bindings/${cluster}/${world.namespace}`, { body }),
      link: (username: string) => person.client.post("/v1/service/cluster-approvers", { cluster, username }),
      async declare(spec: object = {}): Promise<AnyObject> {
        await world.apply(platform(), agent(), delegation(spec));
        return world.reaches("Delegation", "bot", "AwaitingApproval");
      },
      async decide(decision: object, who = ANN, name = "bot") {
        const path = `/apis/deputize.io/v1alpha1/namespaces/${world.namespace}/delegations/${name}/status`;
        const approval = { approver: { username: who.name }, observedGeneration: 1, ...decision };
        const patch = { status: { approval } };
        const answer = await kubernetes.as(who)("PATCH", path, patch, "application/merge-patch+json");
        if (answer.status !== 200) throw new Error(String(answer.body.message));
      },
    };
  });
  const approved = { decision: "Approved", approvedScopes: ["data:read"] };

  describe.concurrent("(concurrent tests)", () => {
    test("become active once the account's owner accepts the namespace", async ({
      life: { world, person, cluster, accept },
    }) => {
      await world.start();
      await world.apply(platform());
      const waiting = await world.reaches("Platform", "shop", "NamespaceNotBound");
      const ready = waiting.status.conditions?.find(({ type }) => type === "Ready");
      expect(ready?.message).toContain(`/v1/service/namespace-bindings/${cluster}/${world.namespace}`);
      const { body } = await person.client.get("/v1/service/namespace-bindings");
      expect(body.namespace_bindings).toContainEqual(
        expect.objectContaining({ cluster, namespace: world.namespace, status: "asking" }),
      );
      await accept();
      await world.reaches("Platform", "shop", "Active");
    });

    test("need another acceptance after their namespace was deleted and created again", async ({
      life: { world, person, cluster, accept },
    }) => {
      const path = `/api/v1/namespaces/${world.namespace}`;
      await accept();
      await world.start();
      await world.apply(platform());
      await world.reaches("Platform", "shop", "Active");
      await world.remove("Platform", "shop");
      await world.gone("Platform", "shop");
      await kubernetes.call("DELETE", path);
      // Without a controller, nobody else completes the deletion.
      const { body: ending } = await kubernetes.call("GET", path);
      await kubernetes.call("PUT", `${path}/finalize`, { ...ending, spec: { finalizers: [] } });
      await until("it is gone", async () => (await kubernetes.call("GET", path)).status === 404);
      await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: world.namespace } });
      await world.apply(platform());
      await world.reaches("Platform", "shop", "NamespaceNotBound");
      const { body } = await person.client.get("/v1/service/namespace-bindings");
      expect(body.namespace_bindings).toContainEqual(
        expect.objectContaining({ cluster, namespace: world.namespace, status: "asking" }),
      );
      await accept();
      await world.reaches("Platform", "shop", "Active");
    });

    test("receive the scopes approved in the console, and end when the spec revokes the delegation", async ({
      life: { world, person, accept, declare },
    }) => {
      await accept();
      await world.start();
      const { requestID } = statusOf(await declare());
      await approve(person, String(requestID), ["data:read"]);
      const active = await world.reaches("Delegation", "bot", "Active");
      expect(statusOf(active)).toMatchObject({ approvedScope: ["data:read"], decidedBy: person.email });
      await world.apply(delegation({ revoked: true, revokeReason: "done" }));
      await world.reaches("Delegation", "bot", "Revoked");
      const { body } = await person.client.get(`/v1/service/delegations/${statusOf(active).certID}`);
      expect(body).toMatchObject({ status: "revoked" });
    });

    test("report a denial by a linked approver", async ({
      life: { world, accept, link, declare, decide },
    }) => {
      await accept();
      await link(ANN.name);
      await world.start();
      await declare();
      await decide({ decision: "Denied", message: "not this month" });
      const denied = await world.reaches("Delegation", "bot", "Denied");
      const ready = denied.status.conditions?.find(({ type }) => type === "Ready");
      expect(ready?.message).toBe(`Denied by ${ANN.name}: not this month`);
    });

    test("ignore a decision by an approver who is not linked, so the account's owner can still decide", async ({
      life: { world, person, accept, declare, decide },
    }) => {
      await accept();
      await world.start();
      const { requestID } = statusOf(await declare());
      await decide(approved);
      await world.reaches("Delegation", "bot", "ApproverNotLinked");
      await approve(person, String(requestID), ["payments:send"]);
      const active = await world.reaches("Delegation", "bot", "Active");
      expect(statusOf(active)).toMatchObject({ approvedScope: ["payments:send"], decidedBy: person.email });
    });

    test("ignore a decision if two people are required and the requester is unknown", async ({
      life: { world, accept, link, declare, decide },
    }) => {
      await accept({ four_eyes: true });
      await link(ANN.name);
      await world.start();
      await declare();
      await decide(approved);
      await world.reaches("Delegation", "bot", "FourEyesRequired");
    });

    test("keep their key and Secret if they are deleted and declared again", async ({
      life: { world, person, accept, declare },
    }) => {
      await accept();
      await world.start();
      await declare();
      const before = await world.secret("shop-credentials");
      for (const [kind, name] of [
        ["Delegation", "bot"],
        ["Agent", "bot"],
        ["Platform", "shop"],
      ] as const) {
        await world.remove(kind, name);
        await world.gone(kind, name);
      }
      await declare();
      expect(await world.secret("shop-credentials")).toEqual(before);
      const platforms = await api.db("platforms").where({ account_id: person.accountId });
      expect(platforms).toHaveLength(1);
    });

    test("adopt an existing platform after its owner's confirmation, with a grace period for the former key", async ({
      life: { world, person, cluster, accept },
    }) => {
      await accept();
      const registered = await registerPlatform(person, { default_allowed_scopes: ["data:read"] });
      const agentId = await createAgent(api.client(), registered);
      const confirm = (path: string, name: string) => {
        const body = { cluster, namespace: world.namespace, name };
        return person.client.call("PUT", `/v1/service/${path}/adoption`, { body });
      };
      const keyRotation = { every: "720h", grace: "1h" };
      const adopting = { adopt: registered.platformId, defaultAllowedScopes: ["data:read"], keyRotation };
      await world.start();
      await world.apply(platform(adopting), agent({ adopt: agentId }));
      await world.reaches("Platform", "shop", "AdoptionNotConfirmed");
      expect(await world.secret("shop-credentials")).toBeUndefined();
      await confirm(`platforms/${registered.platformId}`, "shop");
      const asked = { annotations: { "deputize.io/reconcile-at": "now" } };
      await world.apply(platform(adopting, asked));
      await world.reaches("Platform", "shop", "Active");
      await world.reaches("Agent", "bot", "AdoptionNotConfirmed");
      await confirm(`connections/${registered.connectionId}/agents/${agentId}`, "bot");
      await world.apply(agent({ adopt: agentId }, asked));
      await world.reaches("Agent", "bot", "Active");
      const secret = await world.secret("shop-credentials");
      expect(secret).toMatchObject({
        platform_id: registered.platformId,
        connection_id: registered.connectionId,
      });
      expect(secret?.api_key).not.toBe(registered.apiKey);
      for (const key of [secret?.api_key, registered.apiKey]) {
        const headers = { "x-service-api-key": key ?? "" };
        const agents = `/v1/service/connections/${registered.connectionId}/agents`;
        expect((await api.client().get(agents, { headers })).body.items).toMatchObject([
          { agent_id: agentId },
        ]);
      }
    });

    test("receive a new, working key after the Secret was deleted", async ({
      life: { world, accept, declare },
    }) => {
      await accept();
      await world.start();
      await declare();
      const before = await world.secret("shop-credentials");
      await world.removeSecret("shop-credentials");
      await until("it is back", async () => (await world.secret("shop-credentials")) !== undefined);
      const after = await world.secret("shop-credentials");
      expect(after).toMatchObject({ platform_id: before?.platform_id, connection_id: before?.connection_id });
      const agents = (key = "") =>
        api.client().get(`/v1/service/connections/${after?.connection_id}/agents`, {
          headers: { "x-service-api-key": key },
        });
      expect((await agents(after?.api_key)).status).toBe(200);
      await until("the lost key ends", async () => (await agents(before?.api_key)).status === 401);
    });

    test("receive a signing secret that a person rotated, and show their customers", async ({
      life: { world, person, accept },
    }) => {
      const redirectURIs = ["https://shop.example.test/connected", "http://127.0.0.1:3000/connected"];
      const declare = (spec: object, asked: string) =>
        world.apply(platform(spec, { annotations: { "deputize.io/reconcile-at": asked } }));
      const statusIn = async () => (await world.find("Platform", "shop"))?.status as PlatformStatus;
      await accept();
      await world.start();
      await declare({ redirectURIs }, "1");
      const { status } = await world.reaches("Platform", "shop", "Active");
      expect(status).toMatchObject({ redirectURIs, publishState: "draft", customers: 0 });
      const platformId = String((status as PlatformStatus).platformID);
      const place = `/v1/service/platforms/${platformId}`;
      expect((await person.client.get(place)).body.redirect_uris).toEqual(redirectURIs);
      const first = await world.secret("shop-credentials");
      const rotated = await person.client.post(`${place}/rotate-signing-secret`, { grace_seconds: 3600 });
      const customer = await connect(api, { platform: { platformId } }, { scopes: ["data:read"] });
      await declare({}, "2");
      await until("the customer is in the status", async () => (await statusIn()).customers === 1);
      expect(await statusIn()).not.toHaveProperty("redirectURIs");
      expect((await person.client.get(place)).body.redirect_uris).toEqual([]);
      const second = await world.secret("shop-credentials");
      expect(second?.signing_secret).toBe(rotated.body.signing_secret);
      expect(second).toMatchObject({
        connection_id: first?.connection_id,
        webhook_signing_secret: first?.webhook_signing_secret,
      });
      for (const { api_key, signing_secret } of [first ?? {}, second ?? {}]) {
        expect(await isClientSecret(api, platformId, signing_secret ?? "")).toBe(true);
        const headers = { "x-service-api-key": api_key ?? "" };
        const { body } = await api.client().get("/v1/service/keys/self", { headers });
        expect(body.connection_id).toBe(first?.connection_id);
      }
      expect(JSON.stringify([second, await statusIn()])).not.toContain(customer.connectionId);
    });

    test("get a Secret with a key of the agent, another one after its loss, and none after their deletion", async ({
      life: { world, accept },
    }) => {
      const secret = "bot-agent-key";
      const secrets = `/api/v1/namespaces/${world.namespace}/secrets`;
      const self = async (key = "") =>
        (await api.client().get("/v1/service/keys/self", { headers: { "x-service-api-key": key } })).body;
      await accept();
      await world.start();
      const theirs = { metadata: { name: secret }, data: { password: "eA==" } };
      await kubernetes.call("POST", secrets, theirs);
      await world.apply(platform(), agent());
      await world.reaches("Agent", "bot", "SecretNotOwned");
      expect(await world.secret(secret)).toEqual({ password: "x" });
      await world.removeSecret(secret);
      const annotate = (text: string) =>
        world.apply(agent({}, { annotations: { "deputize.io/reconcile-at": text } }));
      await annotate("now");
      const { status } = await world.reaches("Agent", "bot", "Active");
      const first = await world.secret(secret);
      expect(status).toMatchObject({ apiKeyPrefix: first?.api_key_prefix, credentialsSecretName: secret });
      expect(await self(first?.api_key)).toMatchObject({
        role: "agent",
        agent_id: first?.agent_id,
        connection_id: first?.connection_id,
      });
      await world.removeSecret(secret);
      let second: Awaited<ReturnType<typeof world.secret>>;
      await until("there is another key", async () => {
        second = await world.secret(secret);
        return second !== undefined && (await self(second.api_key)).role === "agent";
      });
      expect(second?.api_key).not.toBe(first?.api_key);
      expect((await self(first?.api_key)).role).toBeUndefined();
      await world.remove("Agent", "bot");
      await world.gone("Agent", "bot");
      expect(await world.secret(secret)).toBeUndefined();
      expect((await self(second?.api_key)).role).toBeUndefined();
      const rows = await api.db("narrow_keys").where({ agent_id: first?.agent_id ?? "" });
      expect(rows).toHaveLength(2);
    });

    test("revoke the certificate when they are deleted, even while they are suspended", async ({
      life: { world, person, accept, declare },
    }) => {
      await accept();
      await world.start();
      const { requestID } = statusOf(await declare());
      await approve(person, String(requestID), ["data:read"]);
      const active = await world.reaches("Delegation", "bot", "Active");
      await world.apply(delegation({ suspend: true }));
      await world.remove("Delegation", "bot");
      await world.gone("Delegation", "bot");
      const { body } = await person.client.get(`/v1/service/delegations/${statusOf(active).certID}`);
      expect(body).toMatchObject({ status: "revoked" });
    });

    test("report that the service no longer knows their request, and make no second request", async ({
      life: { world, person, accept, declare },
    }) => {
      await accept();
      await world.start();
      await declare();
      await api.db("delegation_requests").where({ account_id: person.accountId }).delete();
      await world.apply(delegation({ suspend: true }));
      await world.reaches("Delegation", "bot", "ExternalMissing");
      expect(await api.db("delegation_requests").where({ account_id: person.accountId })).toEqual([]);
    });
  });

  describe("(sequential tests)", () => {
    test("become active within two seconds of an approval in Kubernetes by a linked approver", async ({
      life: { world, accept, link, declare, decide },
    }) => {
      await accept();
      await link(ANN.name);
      await world.start();
      await declare();
      await decide(approved);
      const active = await world.reaches("Delegation", "bot", "Active", 2_000);
      expect(statusOf(active)).toMatchObject({
        approvedScope: ["data:read"],
        decidedBy: ANN.name,
        approval: { decision: "Approved" },
      });
    });

    test("wait for the vault, and then receive a certificate signed by the vault's key", async ({
      life: { world, person, accept, link, declare, decide },
    }) => {
      await accept();
      await link(ANN.name);
      await world.start();
      await declare();
      await real.withoutVault(async () => {
        await decide(approved);
        await world.reaches("Delegation", "bot", "Issuing");
      });
      // The delay between two attempts is up to 30 seconds.
      const { certID } = statusOf(await world.reaches("Delegation", "bot", "Active", 60_000));
      const { body } = await person.client.get(`/v1/service/delegations/${certID}`);
      const certificate = decodeDelegationCert(Buffer.from(JSON.stringify(body.cert_json)));
      expect(
        await verifyHybrid(
          certificate.issuer_pub_key,
          delegationSignBytes(certificate),
          certificate.signature,
        ),
      ).toBe(true);
    });

    test.skipIf(isShared)(
      "wait while the admission policies are missing, and ignore a decision made meanwhile",
      async ({ life: { world, person, accept, link, declare, decide } }) => {
        await accept();
        await link(ANN.name);
        await world.start();
        await declare();
        const path =
          "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/deputize-approval";
        await kubernetes.call("DELETE", path);
        await decide(approved);
        await world.reaches("Delegation", "bot", "ApprovalPolicyMissing");
        await installPolicies(kubernetes);
        await sleep(12_000);
        const request = await api.db("delegation_requests").where({ account_id: person.accountId }).first();
        expect(request?.status).toBe("pending");
      },
    );
  });
});
