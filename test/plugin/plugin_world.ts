import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { kubeconfigText } from "../support/kubernetes/kubeconfig.ts";
import type { Kubernetes } from "../support/kubernetes/server.ts";

export type Ran = { status: number; out: string; err: string };

/** kubectl with the plugin on its PATH, for users with their own tokens. */
export type PluginWorld = {
  /** `input` is the standard input. */
  kubectl(as: string, args: readonly string[], input?: string): Promise<Ran>;
  folder: string;
  dispose(): Promise<void>;
};

/** Prepares kubectl for the users. `programs` maps names to command lines, and `people` users to tokens. */
export async function pluginWorld(
  kubernetes: Kubernetes,
  {
    binary,
    programs,
    people,
    namespace,
  }: { binary: string; programs: Record<string, string>; people: Record<string, string>; namespace: string },
): Promise<PluginWorld> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-plugin-"));
  const bin = join(folder, "bin");
  await mkdir(bin);
  for (const [name, line] of Object.entries({ kubectl: `${binary} kubectl`, ...programs })) {
    await writeFile(join(bin, name), `#!/bin/sh\nexec ${line} "$@"\n`);
    await chmod(join(bin, name), 0o755);
  }
  const configs = new Map<string, string>();
  for (const [name, token] of Object.entries(people)) {
    const path = join(folder, `${name}.yaml`);
    await writeFile(path, kubeconfigText(kubernetes, { token, namespace }));
    configs.set(name, path);
  }
  const env = {
    HOME: folder,
    PATH: [bin, process.env.PATH ?? ""].join(delimiter),
  };
  return {
    folder,
    kubectl: (as, args, input = "") =>
      new Promise((resolve) => {
        const child = execFile(
          join(bin, "kubectl"),
          [...args],
          { env: { ...env, KUBECONFIG: configs.get(as) ?? "" }, maxBuffer: 16 * 1024 * 1024 },
          (error, out, err) => resolve({ status: error === null ? 0 : Number(error.code ?? 1), out, err }),
        );
        child.stdin?.end(input);
      }),
    dispose: () => rm(folder, { recursive: true, force: true }),
  };
}
