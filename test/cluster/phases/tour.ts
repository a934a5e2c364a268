import { join } from "node:path";
import { ROOT } from "../support/cluster.ts";
import { NAMESPACE, RELEASE } from "../support/release.ts";
import { run } from "../support/run.ts";

/** Runs the tour on the cluster as a user would. Returns the steps that passed. */
export async function showTour(kubeconfig: string): Promise<string[]> {
  const place = ["--kubeconfig", kubeconfig, "--release", RELEASE, "--release-namespace", NAMESPACE];
  const said = await run(process.execPath, [join(ROOT, "src/main.ts"), "tour", ...place, "--json"]);
  const lines = said.split("\n").filter((line) => line.startsWith("{"));
  const steps = lines.map((line) => JSON.parse(line) as { step?: string; ok?: boolean });
  return steps.flatMap(({ step, ok }) => (step !== undefined && ok === true ? [step] : []));
}
