import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { AnyObject, DelegationStatus, PlatformStatus } from "../../../src/operator/kinds.ts";
import type { Person, TestApi } from "../../support/api.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { installPolicies } from "../../support/kubernetes/policies.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { approve } from "../../support/platform_world.ts";
import { until } from "../../support/process.ts";
import { agent, delegation, platform } from "../operator_folder.ts";
import type { OperatorCluster } from "./operator_cluster.ts";
import { type RealCluster, startRealCluster } from "./real_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const MERGE_PATCH = "application/merge-patch+json";
const ACCOUNT = "/api/v1/namespaces/deputize-system/serviceaccounts";
const BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

const statusOf = (object: AnyObject | undefined) => object?.status as DelegationStatus & PlatformStatus;

/** The malicious tenant has every right in its namespace. Some tests also remove the admission policies. */
describe.skipIf(binary.missing !== undefined)("a malicious tenant of a cluster", { timeout: 60_000 }, () => {
  let real: RealCluster;
  let kubernetes: Kubernetes;
  let api: TestApi;
  let world: OperatorCluster;
  let person: Person;
  let cluster: string;

  beforeAll(async () => {
    real = await startRealCluster(await startKubernetes(binary.path ?? ""));
    ({ kubernetes, api } = real);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => real?.stop());
  beforeEach(async () => {
    ({ world, person, cluster } = await real.open());
    const place = `/v1/service/namespace-bindings/${cluster}/${world.namespace}`;
    await person.client.call("PUT", place, { body: {} });
    await world.start();
  });
  afterEach(() => world.dispose());

  const must = async (...call: Parameters<Kubernetes["call"]>) => {
    const { status, body } = await kubernetes.call(...call);
    if (status >= 300) throw new Error(`${call[1]}: ${status} ${String(body.message)}`);
    return body;
  };
  const pathOf = (name: string) =>
    `/apis/deputize.io/v1alpha1/namespaces/${world.namespace}/delegations/${name}`;
  const certificate = async (status: DelegationStatus) =>
    (await person.client.get(`/v1/service/delegations/${status.certID}`)).body.status;

  /** Writes a status that a policy would refuse. Removes the policy, and installs it again afterwards. */
  async function forge(name: string, status: object): Promise<void> {
    await must("DELETE", `${BINDINGS}/deputize-status`);
    try {
      await until("the policy is gone", async () => {
        const answer = await kubernetes.call("PATCH", `${pathOf(name)}/status`, { status }, MERGE_PATCH);
        return answer.status === 200;
      });
    } finally {
      await installPolicies(kubernetes);
    }
  }

  async function active(name: string): Promise<DelegationStatus> {
    await world.apply(delegation({}, { name }));
    const { requestID } = statusOf(await world.reaches("Delegation", name, "AwaitingApproval"));
    await approve(person, String(requestID), ["data:read"]);
    return statusOf(await world.reaches("Delegation", name, "Active"));
  }

  test("cannot revoke another tenant's certificate by forging a certID", async () => {
    await world.apply(platform(), agent());
    const [mine, theirs] = [await active("mine"), await active("theirs")];
    await forge("mine", { certID: theirs.certID, requestID: theirs.requestID });
    await world.apply(delegation({ revoked: true }, { name: "mine" }));
    await world.reaches("Delegation", "mine", "Revoked");
    expect(await certificate(mine)).toBe("revoked");
    expect(await certificate(theirs)).toBe("approved");
    expect(statusOf(await world.find("Delegation", "mine")).certID).toBe(mine.certID);
  });

  test("gains nothing by forging conditions, because the operator corrects them", async () => {
    await world.apply(platform(), agent(), delegation());
    const waiting = statusOf(await world.reaches("Delegation", "bot", "AwaitingApproval"));
    const conditions = (waiting.conditions ?? []).map((each) =>
      ["Ready", "Approved", "Issued"].includes(each.type)
        ? { ...each, status: "True", reason: "Active" }
        : each,
    );
    await forge("bot", {
      conditions,
      certID: "cert-forged",
      certStatus: "Active",
      approvedScope: ["data:read"],
    });
    await until("the conditions are corrected", async () => {
      const status = statusOf(await world.find("Delegation", "bot"));
      return status.certID === undefined && status.approvedScope === undefined;
    });
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    const row = await api.db("delegation_requests").where({ account_id: person.accountId }).first();
    expect(row?.status).toBe("pending");
  });

  test("neither overwrites nor reads an existing Secret by naming it in a Platform", async () => {
    const secrets = `/api/v1/namespaces/${world.namespace}/secrets`;
    const data = { password: Buffer.from("theirs").toString("base64") };
    await must("POST", secrets, { metadata: { name: "database" }, data });
    await world.apply(platform({ credentialsSecretName: "database" }));
    await world.reaches("Platform", "shop", "SecretNotOwned");
    expect(await world.secret("database")).toEqual({ password: "theirs" });
    expect(await api.db("platforms").where({ account_id: person.accountId })).toEqual([]);
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const key = await world.secret("shop-credentials");
    const second = platform({ credentialsSecretName: "shop-credentials" }, { name: "second" });
    await world.apply(second);
    await world.reaches("Platform", "second", "SecretNotOwned");
    expect(await world.secret("shop-credentials")).toEqual(key);
  });

  test("cannot widen scopes by editing them, before or after the approval", async () => {
    await world.apply(platform(), agent(), delegation());
    const widen = async () => {
      const scopes = ["data:read", "data:share", "payments:send"];
      const { status, body } = await kubernetes.call(
        "PATCH",
        pathOf("bot"),
        { spec: { scopes } },
        MERGE_PATCH,
      );
      return [status, String(body.message)];
    };
    const refused = [422, expect.stringContaining("scopes are immutable")];
    await world.reaches("Delegation", "bot", "AwaitingApproval");
    expect(await widen()).toEqual(refused);
    const status = await active("bot");
    expect(await widen()).toEqual(refused);
    const { body } = await person.client.get(`/v1/service/delegations/${status.certID}`);
    expect(body.cert_json).toMatchObject({ scope: ["data:read"] });
  });

  test("cannot read the key of another namespace by naming its Secret in a Platform", async () => {
    await world.apply(platform());
    await world.reaches("Platform", "shop", "Active");
    const key = await world.secret("shop-credentials");
    const theirs = platform(
      { credentialsSecretName: `${world.namespace}/shop-credentials` },
      { name: "thief" },
    );
    await expect(world.apply(theirs)).rejects.toThrow("422");
    expect(await world.secret("shop-credentials")).toEqual(key);
  });

  test("cannot decide a delegation by calling the API with the operator's own token", async () => {
    await world.apply(platform(), agent(), delegation());
    const waiting = await world.reaches("Delegation", "bot", "AwaitingApproval");
    const headers = {
      authorization: `Bearer ${await real.tokenOf("deputize-operator", "deputize-api")}`,
      "x-deputize-cluster": cluster,
    };
    const client = api.operatorClient();
    const leader = await client.post("/internal/v1/leadership", { holder: "pod-2" }, { headers });
    const object = { namespace: world.namespace, name: "bot" };
    const decided = await client.post(
      `/internal/v1/delegations/${cluster}.${waiting.metadata.uid}/decision`,
      { object },
      { headers: { ...headers, "x-deputize-epoch": String(leader.body.epoch) } },
    );
    expect(decided.body).toMatchObject({ status: "pending", cert_id: null });
  });

  test("cannot prevent a revocation by suspending the Delegation in the same change", async () => {
    await world.apply(platform(), agent());
    const status = await active("bot");
    await world.apply(delegation({ suspend: true, revoked: true }));
    await world.reaches("Delegation", "bot", "Revoked");
    expect(await certificate(status)).toBe("revoked");
  });

  test("cannot raise a ceiling by deleting a Platform and creating it again", async () => {
    const narrow = { defaultAllowedScopes: ["data:read"] };
    await world.apply(platform(narrow));
    await world.reaches("Platform", "shop", "Active");
    await world.remove("Platform", "shop");
    await world.gone("Platform", "shop");
    await world.apply(platform());
    await world.reaches("Platform", "shop", "CeilingExceeded");
    await world.apply(agent(), delegation({ scopes: ["payments:send"] }));
    await world.reaches("Delegation", "bot", "PlatformNotReady");
    expect(await api.db("delegation_requests").where({ account_id: person.accountId })).toEqual([]);
  });

  test("receives no new key after the account's owner withdrew the namespace's acceptance, but can still delete and revoke", async () => {
    await world.apply(platform({ deletionPolicy: "Delete" }), agent());
    const status = await active("bot");
    const key = await world.secret("shop-credentials");
    await person.client.call("DELETE", `/v1/service/namespace-bindings/${cluster}/${world.namespace}`);
    await world.removeSecret("shop-credentials");
    await world.reaches("Platform", "shop", "NamespaceNotBound");
    expect(await world.secret("shop-credentials")).toBeUndefined();
    await world.remove("Delegation", "bot");
    await world.gone("Delegation", "bot");
    expect(await certificate(status)).toBe("revoked");
    for (const [kind, name] of [["Agent", "bot"] as const, ["Platform", "shop"] as const]) {
      await world.remove(kind, name);
      await world.gone(kind, name);
    }
    const [kept] = await api.db("platforms").where({ account_id: person.accountId });
    expect(kept?.removed_at).toBeNull();
    const shown = await person.client.get(`/v1/service/platforms/${kept?.platform_id}`);
    expect(shown.body.api_key_prefix).toBe(key?.api_key_prefix);
  });

  describe("as a caller of the operator's API", () => {
    const claim = (token: string, of = cluster) =>
      api
        .operatorClient()
        .post(
          "/internal/v1/leadership",
          { holder: "pod-1" },
          { headers: { authorization: `Bearer ${token}`, "x-deputize-cluster": of } },
        );

    test("gains access if it has a token of the cluster's operator", async () => {
      expect((await claim(await real.tokenOf("deputize-operator", "deputize-api"))).status).toBe(200);
    });

    test.each([
      ["another service account's token", "other", "deputize-api"],
      ["the operator's token for another audience", "deputize-operator", "https://kubernetes.default.svc"],
    ])("gains no access with %s", async (_, account, audience) => {
      expect((await claim(await real.tokenOf(account, audience))).status).toBe(401);
    });

    test("gains no access with a token of another cluster, or with a forged token", async () => {
      const token = await real.tokenOf("deputize-operator", "deputize-api");
      expect((await claim(token, "other")).status).toBe(401);
      const [header, payload] = token.split(".");
      expect((await claim(`${header}.${payload}.AAAA`)).status).toBe(401);
      expect((await claim("x".repeat(40))).status).toBe(401);
    });

    test("loses access when the service account of the token is deleted", async () => {
      await kubernetes.call("POST", ACCOUNT, { metadata: { name: "short" } });
      const token = await real.tokenOf("short", "deputize-api");
      await kubernetes.call("DELETE", `${ACCOUNT}/short`);
      await until("it is refused", async () => (await claim(token)).status === 401);
    });
  });
});
