import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { loadRules } from "../../../src/check/check_command.ts";
import { findFaults } from "../../../src/check/find_faults.ts";
import { readWorld } from "../../../src/check/world.ts";
import { systemClock } from "../../../src/clock.ts";
import { createLog } from "../../../src/log.ts";
import { readTexts } from "../../../src/operator/folder/listing.ts";
import { openFolder } from "../../../src/operator/folder/run_over_folder.ts";
import type { AnyObject, Kind } from "../../../src/operator/kinds.ts";
import type { Resources } from "../../../src/operator/resources.ts";
import { loadSchemas } from "../../../src/operator/schema/schemas.ts";
import { kubernetesBinary } from "../../support/kubernetes/binary.ts";
import { definitions, installDefinitions } from "../../support/kubernetes/definitions.ts";
import { type Kubernetes, startKubernetes } from "../../support/kubernetes/server.ts";
import { QUICK, type TestFolders, testFolders } from "../folder/folders.ts";
import type { SchemaCase } from "./cases/manifests.ts";
import { schemaCases } from "./schema_cases.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const binary = await kubernetesBinary();
if (binary.missing !== undefined) console.error(`SKIPPED, missing: ${binary.missing}`);

type Stored = Pick<AnyObject, "kind" | "metadata" | "spec">;

/** kubectl drops this field before the API server sees it. The folder refuses it, as the API server would. */
const LEFT_OUT = "refuses an unknown field that is null";

const ofNewObjects = schemaCases.filter(
  ({ object, previous, name }) => previous === undefined && object.status === undefined && name !== LEFT_OUT,
);
/** Every second refused case. Another test sends the other refused cases as JSON. */
const refused = ofNewObjects.filter(({ accepted }) => !accepted).filter((_, index) => index % 2 === 0);
const cases = [...ofNewObjects.filter(({ accepted }) => accepted), ...refused].map((each, index) => ({
  ...each,
  namespace: `case-${index}`,
  file: `case-${index}.yaml`,
}));

/** Returns a case's manifest as YAML, in the namespace of this case. */
function textOf({ object, namespace }: SchemaCase & { namespace: string }): string {
  const manifest = { ...object, metadata: { ...object.metadata, namespace } };
  return stringify(manifest, { version: "1.1" });
}

describe.skipIf(binary.missing !== undefined)("YAML files of manifests", () => {
  let kubernetes: Kubernetes;
  let folder: string;
  let folders: TestFolders;
  let resources: Resources;
  let inCluster: Map<string, Stored>;
  let faulty: Set<string>;

  beforeAll(async () => {
    kubernetes = await startKubernetes(binary.path ?? "");
    await installDefinitions(kubernetes);
    folder = await mkdtemp(join(tmpdir(), "deputize-manifests-"));
    folders = await testFolders();
    for (const each of cases) {
      await kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: each.namespace } });
      await writeFile(join(folder, each.file), textOf(each));
      await writeFile(join(folders.manifests, each.file), textOf(each));
    }
    await apply();
    inCluster = await stored();
    faulty = await checkFolder();
    resources = await openFolder({
      manifestsDir: folders.manifests,
      statusDir: folders.status,
      secretsDir: folders.secrets,
      schemas: await loadSchemas(),
      clock: systemClock,
      log: createLog("silent", "test"),
      ...QUICK,
    });
    await resources.start();
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await resources?.stop();
    await folders?.dispose();
    await rm(folder, { recursive: true, force: true });
    await kubernetes?.stop();
  });

  /** Applies all files. kubectl must refuse some of them, so a failure is expected. */
  async function apply(): Promise<void> {
    const ca = join(folder, "ca.crt");
    await writeFile(ca, kubernetes.ca);
    const args = [
      ...["kubectl", "apply", "-f", folder, "--server", kubernetes.url],
      ...["--certificate-authority", ca, "--token", kubernetes.adminToken],
    ];
    await new Promise((resolve) => {
      execFile(binary.path ?? "", args, { env: { HOME: folder }, maxBuffer: 64 * 1024 * 1024 }, resolve);
    });
  }

  /** Returns the files that `deputize check` refuses because of a definition or their YAML. */
  async function checkFolder(): Promise<Set<string>> {
    const { definitions, schemas } = await loadRules();
    const { files = [] } = await readTexts(folder, 0);
    const faults = findFaults(readWorld(files, schemas), { definitions, now: systemClock.now() });
    const isRefusal = (rule: string) => rule === "definition" || rule === "yaml";
    return new Set(faults.filter(({ rule }) => isRefusal(rule)).map(({ spot }) => spot.file));
  }

  async function stored(): Promise<Map<string, Stored>> {
    const found = new Map<string, Stored>();
    for (const resource of definitions) {
      const { body } = await kubernetes.call("GET", `/apis/deputize.io/v1alpha1/${resource}`);
      for (const item of body.items as Stored[]) found.set(item.metadata.namespace, item);
    }
    return found;
  }

  test("number at least 150, of which at least 50 are accepted and at least 50 refused", () => {
    expect(cases.length).toBeGreaterThanOrEqual(150);
    expect(cases.filter(({ accepted }) => accepted).length).toBeGreaterThanOrEqual(50);
    expect(cases.filter(({ accepted }) => !accepted).length).toBeGreaterThanOrEqual(50);
  });

  test.each(cases)(
    "have the same result with kubectl apply, in a folder and with deputize check: $name",
    ({ namespace, object, accepted, file }) => {
      const taken = inCluster.get(namespace);
      const name = String(object.metadata.name);
      const inFolder = resources.get(object.kind as Kind, namespace, name);
      const isChecked = !faulty.has(file);
      expect({ cluster: taken !== undefined, folder: inFolder !== undefined, isChecked }).toEqual({
        cluster: accepted,
        folder: accepted,
        isChecked: accepted,
      });
      if (accepted) expect(inFolder?.spec).toEqual(taken?.spec);
    },
  );
});
