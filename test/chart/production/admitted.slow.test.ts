import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ChartCluster, missingCluster, startChartCluster } from "../cluster.ts";
import { type Definitions, ofModule } from "../definitions.ts";
import { nameOf, type Rendered } from "../render.ts";
import { STRIMZI } from "../strimzi.ts";
import { FILES, OBJECTS } from "./files.ts";

const START_MS = 20 * 60_000;
/** Definitions of the operators that the example uses. */
const OPERATORS: readonly Definitions[] = [
  STRIMZI,
  ofModule(
    "github.com/cloudnative-pg/cloudnative-pg",
    "v1.28.0",
    "config/crd/bases",
    /_(clusters|scheduledbackups)\.yaml$/,
  ),
  ofModule(
    "github.com/cloudnative-pg/plugin-barman-cloud",
    "v0.15.0",
    "config/crd/bases",
    /_objectstores\.yaml$/,
  ),
  ofModule(
    "github.com/external-secrets/external-secrets",
    "v1.3.2",
    "config/crds/bases",
    /external-secrets\.io_externalsecrets\.yaml$/,
  ),
];
const missing = await missingCluster(OPERATORS);
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** A faulty field for each kind. The kind's definition must reject it. */
const SPOILT: [string, string, (object: Rendered) => void][] = [
  ["ExternalSecret", "spec.refreshPolicy", ({ spec }) => Object.assign(spec, { refreshPolicy: "Never" })],
  [
    "Cluster",
    "spec.bootstrap.initdb.owners",
    ({ spec }) => Object.assign(spec.bootstrap.initdb, { owners: "x" }),
  ],
  ["ScheduledBackup", "spec.method", ({ spec }) => Object.assign(spec, { method: "copy" })],
  ["ObjectStore", "encryption", ({ spec }) => Object.assign(spec.configuration.data, { encryption: "none" })],
  ["KafkaNodePool", "spec.roles", ({ spec }) => Object.assign(spec, { roles: ["zookeeper"] })],
  [
    "Kafka",
    "spec.kafka.listeners",
    ({ spec }) => Object.assign(spec.kafka.listeners[0], { type: "external" }),
  ],
  ["KafkaTopic", "spec.partitions", ({ spec }) => Object.assign(spec, { partitions: 0 })],
  [
    "KafkaUser",
    "operations",
    ({ spec }) => Object.assign(spec.authorization.acls[0], { operations: ["Reed"] }),
  ],
  ["Certificate", "spec.issuer", ({ spec }) => Object.assign(spec, { issuer: "x" })],
  [
    "PodMonitor",
    "podMetricsEndpoints",
    ({ spec }) => Object.assign(spec, { podMetricsEndpoints: "metrics" }),
  ],
  ["Gateway", "spec.listeners", ({ spec }) => Object.assign(spec.listeners[0], { port: 0 })],
];

describe.skipIf(missing !== undefined)("the production example", () => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster(OPERATORS);
    await cluster.call("POST", "/api/v1/namespaces", { metadata: { name: "gateways" } });
  }, START_MS);
  afterAll(() => cluster?.stop());

  test.each(FILES)(
    "has a file %s.yaml whose objects the definitions of their operators accept",
    async (file) => {
      expect(OBJECTS[file].length).toBeGreaterThan(0);
      const refused: string[] = [];
      for (const object of OBJECTS[file]) {
        const { status, body } = await cluster.admits(object);
        if (status !== 201) refused.push(`${nameOf(object)}: ${status} ${String(body.message)}`);
      }
      expect(refused).toEqual([]);
    },
  );

  test.each(SPOILT)("fails strict validation if a %s has a fault at %s", async (kind, where, spoil) => {
    const object = structuredClone(
      Object.values(OBJECTS)
        .flat()
        .find((each) => each.kind === kind),
    );
    if (object === undefined) throw new Error(`no ${kind}`);
    spoil(object);
    const { status, body } = await cluster.admits(object);
    expect(String(body.message)).toContain(where);
    expect([400, 422]).toContain(status);
  });
});
