import { access, chmod, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type GoProgram, goProgram, requiredVersion } from "../go_program.ts";

/** With `KUBERNETES=oldest`, the tests run on the oldest version that the chart supports. */
export const isOldest = process.env.KUBERNETES === "oldest";
/** Programs that a folder such as envtest's must contain. */
const NEEDED = ["etcd", "kube-apiserver", "kubectl"];

/**
 * Returns a binary with the API server, etcd, the controllers and kubectl. The first build takes about 4
 * minutes on two cores. If KUBEBUILDER_ASSETS is set, uses the programs in that folder.
 */
export async function kubernetesBinary(): Promise<GoProgram> {
  const { KUBEBUILDER_ASSETS: assets = "" } = process.env;
  return assets === "" ? builtBinary() : assetsProgram(assets);
}

async function builtBinary(): Promise<GoProgram> {
  const modFile = isOldest ? "oldest.mod" : "go.mod";
  const version = await requiredVersion("k8s.io/kubernetes", modFile);
  const variables = "k8s.io/component-base/version";
  const [major, minor] = version.split(".");
  return goProgram({
    name: "kubernetes",
    source: "./kubernetes",
    folder: `kubernetes-${version}`,
    what: "a Kubernetes API server",
    linkerFlags: [
      `-X ${variables}.gitVersion=v${version}`,
      `-X ${variables}.gitMajor=${major}`,
      `-X ${variables}.gitMinor=${minor}`,
    ],
    modFile,
  });
}

/** Wraps a folder's programs as one binary. Its first argument selects the program. */
export async function assetsProgram(assets: string): Promise<GoProgram> {
  for (const name of NEEDED) {
    const isThere = await access(join(assets, name)).then(
      () => true,
      () => false,
    );
    if (!isThere) return { missing: `${name} in KUBEBUILDER_ASSETS, which names ${assets}` };
  }
  const path = join(await mkdtemp(join(tmpdir(), "deputize-assets-")), "kubernetes");
  const folder = `'${assets.replaceAll("'", "'\\''")}'`;
  await writeFile(path, `#!/bin/sh\nprogram=$1\nshift\nexec ${folder}/"$program" "$@"\n`);
  await chmod(path, 0o755);
  return { path };
}

/** Returns why the controllers cannot run, or `undefined`. envtest's folder contains no controllers. */
export async function missingControllers(): Promise<string | undefined> {
  const { KUBEBUILDER_ASSETS: assets = "" } = process.env;
  if (assets === "") return undefined;
  return access(join(assets, "kube-controller-manager")).then(
    () => undefined,
    () => `kube-controller-manager in KUBEBUILDER_ASSETS, which names ${assets}`,
  );
}
