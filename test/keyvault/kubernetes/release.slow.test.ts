import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type ChartCluster, missingCluster, startChartCluster } from "../../chart/cluster.ts";
import {
  CHART,
  helmWithValues,
  NAMESPACE,
  podsOf,
  RELEASE,
  type Rendered,
  render,
} from "../../chart/render.ts";
import { VALUES, type Values } from "../../chart/values.ts";
import { helm } from "../../support/helm.ts";
import { cli } from "../command_line.ts";

vi.setConfig({ testTimeout: 120_000 });

const START_MS = 20 * 60_000;
const TRIAL: Values = VALUES.trial ?? {};
const SECRETS = `/api/v1/namespaces/${NAMESPACE}/secrets`;
const PIN = "deputize-trial-keyvault-pin";
const JOB = "deputize-keyvault-certificates";

const { path = "", ...program } = await helm("v3");
const missing = program.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("a release's key vault, on a real API server", () => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
  }, START_MS);
  afterAll(() => cluster?.stop());

  const run = (command: "install" | "upgrade") =>
    helmWithValues(path, [command, RELEASE, CHART, "--namespace", NAMESPACE, "--no-hooks"], TRIAL, {
      KUBECONFIG: cluster.kubeconfig,
    });
  const get = async (target: string) => (await cluster.call("GET", target)).body as unknown as Rendered;

  test("keeps a trial's PIN and never creates a second PIN for an existing token", async () => {
    expect(await run("install")).toMatchObject({ isGood: true });
    const made = await get(`${SECRETS}/${PIN}`);
    expect(Buffer.from(made.data.pin, "base64").toString()).toMatch(/^[0-9a-f]{64}$/);
    expect(await run("upgrade")).toMatchObject({ isGood: true });
    expect((await get(`${SECRETS}/${PIN}`)).data).toEqual(made.data);

    await cluster.create({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "data-deputize-keyvault-0", namespace: NAMESPACE },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    });
    await cluster.call("DELETE", `${SECRETS}/${PIN}`);
    const { isGood, err } = await run("upgrade");
    expect(err).toContain(
      `The vault's token exists (PersistentVolumeClaim data-deputize-keyvault-0), but the Secret ${PIN}`,
    );
    expect(isGood).toBe(false);
    const { labels, annotations } = made.metadata;
    const metadata = { name: PIN, namespace: NAMESPACE, labels, annotations } as Rendered["metadata"];
    await cluster.create({ ...made, metadata });
    expect(await run("upgrade")).toMatchObject({ isGood: true });
    expect((await get(`${SECRETS}/${PIN}`)).data).toEqual(made.data);
  });

  test("gets its certificates from the chart's Job with the chart's rights", async () => {
    const objects = await render(path, TRIAL);
    for (const object of objects)
      if (object.metadata.name === JOB && object.kind !== "Job") await cluster.create(object);
    const account = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${JOB}/token`;
    const issued = await cluster.call("POST", account, { spec: { expirationSeconds: 600 } });
    const { token } = issued.body.status as { token: string };
    const folder = await mkdtemp(join(tmpdir(), "account-"));
    try {
      for (const [name, text] of Object.entries({ "ca.crt": cluster.ca, token, namespace: NAMESPACE })) {
        await writeFile(join(folder, name), text);
      }
      const pod = podsOf(objects).find(({ of }) => of.kind === "Job" && of.metadata.name === JOB);
      const args = pod?.template.spec.containers[0]?.args ?? [];
      const there = [`--kubernetes=${cluster.url}`, `--account=${folder}`];
      const make = async () => (await cli({ environment: {} }, ...args, ...there)).stdout;
      expect((await make()).match(/: made/g)).toHaveLength(4);
      expect((await make()).match(/: kept/g)).toHaveLength(4);
    } finally {
      await rm(folder, { recursive: true });
    }
    const mounted = podsOf(objects).flatMap(({ template }) =>
      (template.spec.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []),
    );
    for (const name of ["deputize-keyvault-tls", "deputize-keyvault-api-tls"]) {
      expect(mounted).toContain(name);
      expect(Object.keys((await get(`${SECRETS}/${name}`)).data).sort()).toEqual([
        "ca.crt",
        "tls.crt",
        "tls.key",
      ]);
    }
    for (const name of ["deputize-keyvault-authority", "deputize-keyvault-admin-tls"]) {
      expect(mounted).not.toContain(name);
      expect((await get(`${SECRETS}/${name}`)).metadata.name).toBe(name);
    }
  });
});
