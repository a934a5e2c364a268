import { describe, expect, test } from "vitest";
import { createTerminal } from "../../../../src/dev/terminal.ts";
import { bindNamespace, choosePlace } from "../../../../src/dev/tour/cluster/namespace.ts";
import { readClusterTour } from "../../../../src/dev/tour/cluster/options.ts";
import { findRelease, type Release } from "../../../../src/dev/tour/cluster/release.ts";
import { createUndo } from "../../../../src/dev/tour/cluster/undo.ts";
import { type Kubectl, KubectlFailure } from "../../../../src/plugin/kubectl.ts";
import { releaseParts } from "./release_parts.ts";

const settings = readClusterTour({
  release: "deputize",
  releaseNamespace: "deputize-system",
  webhooks: true,
  timeout: "5",
});
const kinds = { resources: ["platforms", "agents", "delegations"].map((name) => ({ name })) };

/** Returns a fake kubectl. A call's first words select its answer. It throws a string as an error. */
function kubectlOf(answers: Record<string, unknown>): Kubectl {
  const called: string[] = [];
  async function run(args: readonly string[]): Promise<string> {
    called.push(args.join(" "));
    const found = Object.entries(answers).find(([words]) => args.join(" ").startsWith(words));
    if (found === undefined) throw new Error(`unexpected: ${args.join(" ")}`);
    if (typeof found[1] === "string") throw new KubectlFailure(found[1]);
    return JSON.stringify(found[1]);
  }
  return {
    run,
    json: async (args) => JSON.parse(await run(args)),
    find: async (resource, name) => {
      const answer = JSON.parse(await run(["get", resource, name]));
      return answer ?? undefined;
    },
    list: async (args) => (JSON.parse(await run(["get", ...args])) as { items: never[] }).items,
  };
}

const installed = (parts: object[], others: Record<string, unknown> = {}) =>
  kubectlOf({
    "get deployments,statefulsets,services": { items: parts },
    "get --raw": kinds,
    "get namespace kube-system": { metadata: { name: "kube-system", uid: "uid-of-cluster" } },
    ...others,
  });

const refused = (kubectl: Kubectl) => expect(findRelease(kubectl, settings)).rejects;

describe("findRelease", () => {
  test("returns everything that the tour needs", async () => {
    const kubectl = installed(
      releaseParts({
        api: { DEVELOPMENT: "true" },
        operator: { CLUSTER_ID: "trial", OPERATOR_NAMESPACE: "elsewhere", WATCH_NAMESPACES: "a, b" },
      }),
    );
    expect(await findRelease(kubectl, settings)).toEqual({
      name: "deputize",
      namespace: "deputize-system",
      version: "1.2.3",
      apiService: "deputize-api",
      image: { name: "localhost/deputize:test", pullPolicy: "IfNotPresent" },
      isDevelopment: true,
      operatorNamespace: "elsewhere",
      clusterId: "trial",
      watched: ["a", "b"],
    });
  });

  test("defaults to the cluster's uid, all namespaces and no trial", async () => {
    expect(await findRelease(installed(releaseParts()), settings)).toMatchObject({
      isDevelopment: false,
      operatorNamespace: "deputize-system",
      clusterId: "uid-of-cluster",
      watched: undefined,
    });
  });

  test.each([
    ["no object of the release", []],
    ["no Service of the release", releaseParts().filter(({ kind }) => kind !== "Service")],
    ["no API", releaseParts().filter(({ metadata }) => metadata.name !== "deputize-api")],
  ])("reports a missing release if there is %s", async (_, parts) => {
    await refused(installed(parts)).toThrow("There is no release deputize in namespace deputize-system");
  });

  test("reports missing resource definitions", async () => {
    const none = "Error from server (NotFound): the server could not find the requested resource";
    await refused(installed(releaseParts(), { "get --raw": none })).toThrow(
      "The cluster has no definition of platforms.deputize.io, agents.deputize.io, delegations.deputize.io",
    );
    const two = { resources: [{ name: "platforms" }, { name: "platforms/status" }, { name: "agents" }] };
    await refused(installed(releaseParts(), { "get --raw": two })).toThrow(
      "The cluster has no definition of delegations.deputize.io",
    );
  });

  test.each(["deputize-api", "deputize-operator", "deputize-worker", "deputize-keyvault"])(
    "reports that %s has no ready pod",
    async (name) => {
      const parts = releaseParts().map((part) =>
        part.metadata.name === name && part.status !== undefined ? { ...part, status: {} } : part,
      );
      await refused(installed(parts)).toThrow(`Release deputize is not ready: ${name} has no ready pod`);
    },
  );

  test("requires an operator and the default service name in the API's paths", async () => {
    const without = releaseParts().filter(({ metadata }) => metadata.name !== "deputize-operator");
    await refused(installed(without)).toThrow("Release deputize has no operator in this cluster");
    const other = releaseParts({ api: { SERVICE_WORD: "ratify" } });
    await refused(installed(other)).toThrow(
      'The API of release deputize uses the path word "ratify", but the tour needs "service"',
    );
  });

  test("reports kubectl's own message if the cluster refuses kubectl's call", async () => {
    const forbidden = "Error from server (Forbidden): deployments.apps is forbidden";
    await refused(kubectlOf({ "get deployments": forbidden })).toThrow(forbidden);
  });
});

describe("choosePlace", () => {
  const release = { name: "deputize", watched: undefined } as Release;
  const watching = { ...release, watched: ["shop", "lab"] };
  const there = kubectlOf({ "get namespaces lab": { kind: "Namespace" }, "get namespaces none": null });
  const empty = () => ({ ...kubectlOf({}), run: async () => "" });
  const refusedPlace = (...args: Parameters<typeof choosePlace>) => expect(choosePlace(...args)).rejects;

  test("returns a new random namespace if the operator watches all namespaces", async () => {
    const [one, other] = [
      await choosePlace(there, empty, release, undefined),
      await choosePlace(there, empty, release, undefined),
    ];
    expect(one).toEqual({ namespace: expect.stringMatching(/^deputize-tour-[0-9a-f]{8}$/), isKept: false });
    expect(other?.namespace).not.toBe(one?.namespace);
  });

  test("returns the namespace that the user named and marks it as kept", async () => {
    for (const known of [release, watching]) {
      expect(await choosePlace(there, empty, known, "lab")).toEqual({ namespace: "lab", isKept: true });
    }
  });

  test("rejects a namespace that the operator does not watch", async () => {
    await refusedPlace(there, empty, watching, undefined).toThrow(
      "The operator of release deputize watches only these namespaces, and not a new one: shop, lab",
    );
    await refusedPlace(there, empty, watching, "other").toThrow(
      "The operator of release deputize does not watch namespace other",
    );
  });

  test("creates no namespace if the operator selects namespaces by labels", async () => {
    const selecting = { ...release, selector: "team=shop" };
    await refusedPlace(there, empty, selecting, undefined).toThrow(
      "The operator of release deputize works only in namespaces with certain labels, and not in a new one: team=shop",
    );
    expect(await choosePlace(there, empty, selecting, "lab")).toEqual({ namespace: "lab", isKept: true });
  });

  test("rejects a named namespace that is missing or contains the tour's objects", async () => {
    await refusedPlace(there, empty, release, "none").toThrow("There is no namespace none");
    const full = () => ({ ...empty(), run: async () => "platform.deputize.io/shop\npod/other\n" });
    await refusedPlace(there, full, release, "lab").toThrow(
      "Namespace lab already contains platform.deputize.io/shop, which the tour would create",
    );
  });
});

describe("bindNamespace", () => {
  const undo = createUndo(
    createTerminal({ out: { write: () => {} }, err: { write: () => {} }, color: false, json: true }),
  );
  const bound = (entry: string) =>
    kubectlOf({
      "get configmaps": {
        items: [
          {
            kind: "ConfigMap",
            metadata: { name: "unrelated" },
            data: { lab: "accountEmail: no@example.test" },
          },
          { kind: "ConfigMap", metadata: { name: "deputize-tenants" }, data: { lab: entry } },
        ],
      },
      apply: {},
    });
  const bind = (kubectl: Kubectl, isKept = true) =>
    bindNamespace(kubectl, undo, {
      place: { namespace: "lab", isKept },
      email: "jane@example.test",
      operatorNamespace: "deputize-system",
    });

  test("keeps an existing binding to the same account", async () => {
    await (await bind(bound("accountEmail: Jane@Example.test")))();
  });

  test("rejects a faulty binding and a binding to another account", async () => {
    await expect(bind(bound("accountEmail: joe@example.test"))).rejects.toThrow(
      "Namespace lab is bound to joe@example.test, not to jane@example.test",
    );
    await expect(bind(bound("accountEmail: joe"))).rejects.toThrow(
      "The binding of namespace lab in deputize-tenants is faulty: accountEmail: is not an e-mail address",
    );
  });
});
