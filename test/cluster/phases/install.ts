import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../support/process.ts";
import { CHART, NAMESPACE, RELEASE } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";

const RESTRICTED = {
  "pod-security.kubernetes.io/enforce": "restricted",
  "pod-security.kubernetes.io/enforce-version": "latest",
};
const READY_S = 300;

/** Creates the release's namespace, which admits only restricted pods. */
export async function makeNamespace(tools: Tools): Promise<void> {
  await tools.apply({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: tools.namespace, labels: RESTRICTED },
  });
}

/** Installs or upgrades the release, and waits until it is ready. Returns the duration in seconds. */
export async function helmUpgrade(tools: Tools, values: object, chart = CHART): Promise<number> {
  const file = join(await mkdtemp(join(tmpdir(), "deputize-values-")), "values.json");
  await writeFile(file, JSON.stringify(values));
  return timed(() =>
    tools.helm(
      ...["upgrade", "--install", RELEASE, chart, "--namespace", tools.namespace, "--values", file],
      ...["--wait", "--timeout", `${READY_S}s`],
    ),
  );
}

/** Rolls back by one revision, and waits until the release is ready. Returns the duration in seconds. */
export function helmRollback(tools: Tools): Promise<number> {
  return timed(() =>
    tools.helm("rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", `${READY_S}s`),
  );
}

/** Runs the chart's own tests. Returns their duration in seconds. */
export function helmTest(tools: Tools): Promise<number> {
  return timed(() => tools.helm("test", RELEASE, "--namespace", NAMESPACE));
}

/** Waits until the release's pods are gone. Returns the duration in seconds. */
export function helmUninstall(tools: Tools): Promise<number> {
  return timed(async () => {
    await tools.helm(
      "uninstall",
      RELEASE,
      "--namespace",
      tools.namespace,
      "--wait",
      "--timeout",
      `${READY_S}s`,
    );
    const selector = `app.kubernetes.io/instance=${RELEASE}`;
    const areGone = async () => {
      const { items } = await tools.read<{ items: object[] }>(
        "-n",
        tools.namespace,
        "get",
        "pods",
        "-l",
        selector,
      );
      return items.length === 0;
    };
    await until("the release's pods are gone", areGone, READY_S * 1_000);
  });
}

/** Returns the duration of the work in seconds, rounded to a tenth. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return Math.round((performance.now() - start) / 100) / 10;
}
