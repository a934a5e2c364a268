import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { assetsProgram } from "../support/kubernetes/binary.ts";

const run = promisify(execFile);

describe("the programs in KUBEBUILDER_ASSETS", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "it's-assets-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  test("start by name and accept their flags", async () => {
    for (const name of ["etcd", "kube-apiserver", "kubectl"]) {
      await writeFile(join(folder, name), `#!/bin/sh\necho ${name} "$@"\n`);
      await chmod(join(folder, name), 0o755);
    }
    const { path = "" } = await assetsProgram(folder);
    expect((await run(path, ["etcd", "--data-dir=a b"])).stdout).toBe("etcd --data-dir=a b\n");
    expect((await run(path, ["kubectl", "get", "*"])).stdout).toBe("kubectl get *\n");
  });

  test("cause an error with their name if they are missing", async () => {
    await writeFile(join(folder, "etcd"), "");
    expect(await assetsProgram(folder)).toEqual({
      missing: `kube-apiserver in KUBEBUILDER_ASSETS, which names ${folder}`,
    });
  });
});
