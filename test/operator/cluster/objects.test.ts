import { beforeEach, describe, expect, test } from "vitest";
import { ClusterError } from "../../../src/kubernetes/cluster_error.ts";
import { createClusterObjects } from "../../../src/operator/cluster/objects.ts";
import { createClusterSecrets } from "../../../src/operator/cluster/secrets.ts";
import { aDelegation } from "../objects.ts";

const error = (status: number) =>
  new ClusterError({ verb: "patch", resource: "delegations", status, reason: "Because" });
const approval = { decision: "Approved" };

describe("a write to a cluster", () => {
  let failures: number[];
  let sent: object[];
  /** The finalizers that the cluster stores, whatever the operator writes. */
  let stored: string[];

  const write = async ({ body }: { body: object }): Promise<object> => {
    sent.push(body);
    const failure = failures.shift();
    if (failure !== undefined) throw error(failure);
    return {};
  };
  const objects = createClusterObjects({
    client: {
      custom: {
        getNamespacedCustomObject: async () => ({
          metadata: { name: "loan", namespace: "default", uid: "uid-of-loan", resourceVersion: "7" },
          status: { approval, certID: "former" },
        }),
        patchNamespacedCustomObjectStatus: write,
        async patchNamespacedCustomObject(request: { body: object }) {
          await write(request);
          const metadata = { name: "loan", namespace: "default", uid: "uid-of-loan", resourceVersion: "8" };
          return { metadata: { ...metadata, finalizers: stored } };
        },
        deleteNamespacedCustomObject: write,
      },
    } as never,
    note: () => undefined,
    noteEnd: () => undefined,
  });

  beforeEach(() => {
    [failures, sent, stored] = [[], [], []];
  });

  test("replaces exactly the state that was read, and keeps the users' approval", async () => {
    await objects.writeStatus(aDelegation(), { observedGeneration: 2 });
    expect(sent).toEqual([
      {
        metadata: { uid: "uid-of-loan", resourceVersion: "7" },
        status: { certID: null, observedGeneration: 2 },
      },
    ]);
  });

  test("repeats up to four times if other writers come first", async () => {
    failures = [409, 409, 409, 409];
    await objects.writeStatus(aDelegation(), {});
    expect(sent).toHaveLength(5);
    failures = [409, 409, 409, 409, 409];
    await expect(objects.writeStatus(aDelegation(), {})).rejects.toThrow("patch delegations/status: 409");
  });

  test("reports that a policy removes the finalizer, but not that it removes another part", async () => {
    const adding = () => objects.setFinalizer(aDelegation(), true);
    await expect(adding()).rejects.toMatchObject({ reason: "FinalizerRemoved", verb: "patch" });
    stored = ["deputize.io/revoke"];
    await adding();
    expect(sent).toHaveLength(2);
  });

  test("does not touch an object of another uid", async () => {
    await objects.writeStatus(aDelegation({ metadata: { uid: "other" } }), {});
    expect(sent).toEqual([]);
  });

  test("deletes only the object with this uid, and ignores that it is gone or another", async () => {
    failures = [404, 409, 500];
    await objects.remove(aDelegation());
    await objects.remove(aDelegation());
    await expect(objects.remove(aDelegation())).rejects.toThrow("500");
    expect(sent[0]).toEqual({ preconditions: { uid: "uid-of-loan" } });
  });

  test("replaces a Secret's data, labels and annotations as a whole", async () => {
    const secrets = createClusterSecrets({ core: { patchNamespacedSecret: write } } as never);
    const secret = {
      namespace: "default",
      name: "key",
      type: "t",
      labels: {},
      annotations: {},
      data: { a: "b" },
    };
    const previous = {
      ...secret,
      labels: { x: "1" },
      annotations: { y: "2" },
      data: { z: "3" },
      version: "7",
    };
    expect(await secrets.write(secret, previous)).toBe(true);
    expect(sent).toEqual([
      {
        metadata: { resourceVersion: "7", labels: { x: null }, annotations: { y: null } },
        type: "t",
        data: { z: null, a: "Yg==" },
      },
    ]);
  });
});
