import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readClustersFile } from "../../src/clusters/trusted_clusters.ts";
import { ConfigError } from "../../src/config.ts";

describe("the file in CLUSTERS_FILE", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deputize-clusters-"));
  });
  afterAll(() => rm(folder, { recursive: true }));

  async function read(text: string) {
    const path = join(folder, "clusters.yaml");
    await writeFile(path, text);
    return readClustersFile(path);
  }

  test("lists clusters, how to reach them, and the users of their operators", async () => {
    const operator = "system:serviceaccount:deputize-system:deputize-operator";
    expect(
      await read(`clusters:
  - id: prod-eu
  - { id: prod-us, kubeconfig: us/config, context: us, operator: "system:serviceaccount:a:b" }
`),
    ).toEqual([
      { id: "prod-eu", operator },
      {
        id: "prod-us",
        kubeconfig: join(folder, "us/config"),
        context: "us",
        operator: "system:serviceaccount:a:b",
      },
    ]);
    expect(await read("clusters: []")).toEqual([]);
  });

  test.each([
    ["is not YAML", "clusters: [", "is not YAML"],
    ["is empty", "", "the file has faults"],
    ["has an id of other characters", "clusters: [{ id: a/b }]", "clusters.0.id"],
    ["has an unknown field", "clusters: [{ id: a, server: x }]", "server"],
    ["names a cluster twice", "clusters: [{ id: a }, { id: b }, { id: a }]", "the cluster a is listed twice"],
  ])("causes an error when it %s", async (_, text, why) => {
    const error = await read(text).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain(why);
  });

  test("causes an error if it does not exist", () => {
    expect(() => readClustersFile(join(folder, "none.yaml"))).toThrow("CLUSTERS_FILE: names a file");
  });
});
