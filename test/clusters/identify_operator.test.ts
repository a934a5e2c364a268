import { beforeEach, describe, expect, test } from "vitest";
import { createIdentifyOperator, type IdentifyOperator } from "../../src/clusters/identify_operator.ts";
import type { TrustedCluster } from "../../src/clusters/trusted_clusters.ts";
import { runningApi } from "../support/api.ts";
import { noObjects } from "../support/fake_cluster.ts";

const OPERATOR = "system:serviceaccount:deputize-system:deputize-operator";
const SHARED = "shared-by-both-sides";
const api = runningApi();

describe("an operator's token", () => {
  let identify: IdentifyOperator;
  let asked: string[];

  /** A cluster's only valid token is the cluster's name. */
  const cluster = (name: string): TrustedCluster => ({
    operator: OPERATOR,
    client: {
      ...noObjects,
      authentication: {
        async createTokenReview({ body: { spec } }) {
          asked.push(name);
          const good = { authenticated: true, user: { username: OPERATOR }, audiences: ["deputize-api"] };
          return { spec, status: spec.token === name ? good : { authenticated: false } };
        },
      },
    },
  });

  beforeEach(async () => {
    asked = [];
    await api.db("operator_token_cluster").delete();
    const clusters = new Map(["one", "two"].map((name) => [name, cluster(name)]));
    identify = createIdentifyOperator({
      ...api,
      clusters: { get: (id) => clusters.get(id), close: async () => undefined },
      sharedToken: SHARED,
    });
  });
  const code = (token: string, id: string) =>
    identify(token, id).then(
      ({ clusterId }) => clusterId,
      (error: { code: string }) => error.code,
    );

  test("identifies an operator only for the cluster in the settings that accepts the token", async () => {
    expect(await code("one", "one")).toBe("one");
    expect(await code("one", "two")).toBe("operator_unauthorized");
    expect(await code("two", "one")).toBe("operator_unauthorized");
  });

  test("fails if it is the shared token but the call names a cluster in the settings", async () => {
    expect(await code(SHARED, "one")).toBe("operator_unauthorized");
    expect(await api.db("operator_token_cluster")).toEqual([]);
  });

  test("identifies only one cluster outside the settings, and only if it is the shared token", async () => {
    expect(await code("one", "three")).toBe("operator_unauthorized");
    expect(await code("", "three")).toBe("operator_unauthorized");
    expect(asked).toEqual([]);
    expect(await code(SHARED, "three")).toBe("three");
    expect(await code(SHARED, "four")).toBe("operator_unauthorized");
  });

  test.each(["", "a/b", "a.b", "%", "x".repeat(65), "ann\nbob"])(
    "fails with the invalid cluster id %j",
    async (id) => {
      expect(await code(SHARED, id)).toBe("invalid_request");
      expect(await api.db("operator_token_cluster")).toEqual([]);
      expect(await code("guess", id)).toBe("operator_unauthorized");
    },
  );

  test("always fails if the settings contain neither clusters nor a shared token", async () => {
    identify = createIdentifyOperator({
      ...api,
      clusters: { get: () => undefined, close: async () => undefined },
      sharedToken: undefined,
    });
    for (const token of ["", "undefined", SHARED]) {
      expect(await code(token, "three")).toBe("operator_unauthorized");
    }
  });
});
