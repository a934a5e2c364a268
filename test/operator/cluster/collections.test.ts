import { beforeEach, describe, expect, test } from "vitest";
import { createApiClients } from "../../../src/kubernetes/api_clients.ts";
import type { ClusterClient, ClusterWatch } from "../../../src/kubernetes/client.ts";
import {
  type Collection,
  configMapCollection,
  kindCollection,
  secretCollection,
} from "../../../src/operator/cluster/collections.ts";

type Client = Pick<ClusterClient, "core" | "custom" | "until" | "watch">;
const KINDS = "/apis/deputize.io/v1alpha1";
const OURS = { fieldSelector: "type=deputize.io/platform-credentials" };
const named = { fieldSelector: "metadata.name=tenants" };

describe("a collection", () => {
  let asked: { path: string; query: object }[];
  let client: Client;

  beforeEach(async () => {
    asked = [];
    const clients = await createApiClients("https://cluster.test/base", async (_, { path, query }) => {
      asked.push({ path, query });
      return '{"metadata":{"resourceVersion":"7","continue":"more"},"items":[]}';
    });
    const watch = async ({ path, query }: ClusterWatch) => void asked.push({ path, query });
    client = { ...clients, watch };
  });

  test.each<[string, (client: Client) => Collection, string, object]>([
    ["a kind", (client) => kindCollection(client, "Agent"), `${KINDS}/agents`, {}],
    [
      "a kind in a namespace",
      (client) => kindCollection(client, "Agent", "shop"),
      `${KINDS}/namespaces/shop/agents`,
      {},
    ],
    ["Secrets", (client) => secretCollection(client), "/api/v1/secrets", OURS],
    [
      "Secrets in a namespace",
      (client) => secretCollection(client, "shop"),
      "/api/v1/namespaces/shop/secrets",
      OURS,
    ],
    [
      "ConfigMaps",
      (client) => configMapCollection(client, "shop", named),
      "/api/v1/namespaces/shop/configmaps",
      named,
    ],
  ])("lists and watches the same set of objects for %s", async (_, create, path, selector) => {
    const collection = create(client);
    const { signal } = new AbortController();
    await collection.list({ limit: 5, continue: "token" }, signal);
    await collection.watch({ resourceVersion: "7" }, { signal, onEvent: () => undefined });
    expect(asked).toEqual([
      { path, query: { ...selector, limit: "5", continue: "token" } },
      { path, query: { ...selector, resourceVersion: "7" } },
    ]);
  });
});
