import { execFile } from "node:child_process";
import { type GoProgram, goProgram, requiredVersion } from "./go_program.ts";

export const HELMS = ["v3", "v4"] as const;
type HelmVersion = (typeof HELMS)[number];

export type HelmRun = { isGood: boolean; out: string; err: string };

/** The first build of Helm takes a minute on two cores, and 3 minutes if no Kubernetes was built before. */
export async function helm(version: HelmVersion): Promise<GoProgram> {
  const module = `helm.sh/helm/${version}`;
  const required = await requiredVersion(module);
  return goProgram({
    name: "helm",
    source: `${module}/cmd/helm`,
    folder: `helm-${required}`,
    what: `Helm ${required}`,
    linkerFlags: [`-X ${module}/internal/version.version=v${required}`],
  });
}

/** Runs Helm without a cluster, and with no environment except PATH and `environment`. */
export async function runHelm(
  path: string,
  args: readonly string[],
  environment: Record<string, string> = {},
): Promise<HelmRun> {
  const env = {
    PATH: process.env.PATH,
    HOME: "/nonexistent",
    KUBECONFIG: "/nonexistent/config",
    ...environment,
  };
  return new Promise((resolve) => {
    execFile(path, args, { env, maxBuffer: 64 * 1024 * 1024 }, (error, out, err) =>
      resolve({ isGood: error === null, out, err }),
    );
  });
}
