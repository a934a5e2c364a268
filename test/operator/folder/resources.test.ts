import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import type { Key } from "../../../src/operator/kinds.ts";
import { describeResources, type ResourcesHarness } from "../describe_resources.ts";
import { tenants, testFolders } from "./folders.ts";

const fileOf = ({ kind, name }: Key) => `${kind}.${name}.yaml`;

describeResources("a folder", async (): Promise<ResourcesHarness> => {
  const folders = await testFolders();
  let resources = await folders.open();
  return {
    resources,
    apply: (manifest) => {
      const { kind, metadata } = manifest as { kind: Key["kind"]; metadata: { name: string } };
      return folders.write(fileOf({ kind, namespace: "default", name: metadata.name }), manifest);
    },
    remove: (key) => folders.remove(fileOf(key)),
    bind: (data) => folders.write("tenants.yaml", tenants(data)),
    async putSecret({ namespace, name, type, annotations, data }) {
      const folder = join(folders.secrets, namespace);
      await mkdir(folder, { recursive: true });
      const metadata = { name, namespace, annotations };
      const manifest = { apiVersion: "v1", kind: "Secret", metadata, type, stringData: data };
      await writeFile(join(folder, `${name}.yaml`), stringify(manifest));
    },
    async reopen() {
      await resources.stop();
      resources = await folders.open();
      return resources;
    },
    async close() {
      await resources.stop();
      await folders.dispose();
    },
  };
});
