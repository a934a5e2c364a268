import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parse, stringify } from "yaml";
import { systemClock } from "../../../src/clock.ts";
import { createLog } from "../../../src/log.ts";
import { openFolder } from "../../../src/operator/folder/run_over_folder.ts";
import type { Resources } from "../../../src/operator/resources.ts";
import { loadSchemas } from "../../../src/operator/schema/schemas.ts";

/** Delays for tests, in milliseconds. No human edits these files. */
export const QUICK = { quietMs: 15, missingMs: 60, rescanMs: 400 };

const schemas = await loadSchemas();

export type TestFolders = {
  root: string;
  manifests: string;
  status: string;
  secrets: string;
  /** A string is the whole content. Objects become YAML documents. */
  write(file: string, ...content: (string | object)[]): Promise<void>;
  remove(file: string): Promise<void>;
  /** Returns the parsed state file of an object; `undefined` if there is no such file. */
  state(kind: string, name: string, namespace?: string): Promise<StateFile | undefined>;
  errors(): Promise<{ file: string; document?: number; object?: string; faults: string[] }[]>;
  open(): Promise<Resources>;
  dispose(): Promise<void>;
};

export type StateFile = {
  metadata: { uid?: string; generation?: number; deletionTimestamp?: string; finalizers?: string[] };
  spec?: Record<string, unknown>;
  status?: Record<string, unknown> & {
    conditions?: { type: string; status: string; reason: string; message: string }[];
  };
};

export async function testFolders(): Promise<TestFolders> {
  const root = await mkdtemp(join(tmpdir(), "deputize-operator-"));
  const [manifests, status, secrets] = ["manifests", "status", "secrets"].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(manifests);
  const readYaml = async (path: string): Promise<unknown> => {
    try {
      return parse(await readFile(path, "utf8"));
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return undefined;
      throw error;
    }
  };
  return {
    root,
    manifests,
    status,
    secrets,
    async write(file, ...content) {
      const documents = content.map((each) => (typeof each === "string" ? each : stringify(each)));
      await mkdir(dirname(join(manifests, file)), { recursive: true });
      await writeFile(join(manifests, file), documents.join("---\n"));
    },
    remove: (file) => rm(join(manifests, file)),
    state: (kind, name, namespace = "default") =>
      readYaml(join(status, namespace, `${kind.toLowerCase()}.${name}.yaml`)) as Promise<
        StateFile | undefined
      >,
    async errors() {
      const content = (await readYaml(join(status, "errors.yaml"))) as { errors: [] } | undefined;
      return content?.errors ?? [];
    },
    open: () =>
      openFolder({
        manifestsDir: manifests,
        statusDir: status,
        secretsDir: secrets,
        schemas,
        clock: systemClock,
        log: createLog("silent", "test"),
        ...QUICK,
      }),
    dispose: () => rm(root, { recursive: true, force: true }),
  };
}

export function tenants(
  data: Record<string, string> = { default: "accountEmail: owner@example.test" },
): object {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "deputize-tenants", namespace: "deputize-system" },
    data,
  };
}
