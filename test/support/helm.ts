import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type GoProgram, goProgram } from "./go_program.ts";

export const HELMS = ["v3", "v4"] as const;
type HelmVersion = (typeof HELMS)[number];

export type HelmRun = { isGood: boolean; out: string; err: string };

/** The first build of Helm takes about 3 minutes per version on two cores. */
export async function helm(version: HelmVersion): Promise<GoProgram> {
  const sources = join(import.meta.dirname, "helm", version);
  const module = `helm.sh/helm/${version}`;
  const required = new RegExp(`${module} v(\\S+)`).exec(await readFile(join(sources, "go.mod"), "utf8"));
  if (required === null) throw new Error(`${sources}/go.mod does not require ${module}`);
  return goProgram({
    sources,
    module: `${module}/cmd/helm`,
    name: "helm",
    folder: `helm-${required[1]}`,
    what: `Helm ${required[1]}`,
    linkerFlags: [`-X ${module}/internal/version.version=v${required[1]}`],
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
