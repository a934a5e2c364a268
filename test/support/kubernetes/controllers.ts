import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnTied } from "../../../src/dev/process/lifeline.mjs";
import { until } from "../process.ts";
import { kubeconfigText } from "./kubeconfig.ts";
import type { Kubernetes } from "./server.ts";

const CONTROLLERS = [
  "namespace-controller",
  "garbage-collector-controller",
  "resourcequota-controller",
  "serviceaccount-controller",
];

export type Controllers = { stop(): Promise<void> };

/**
 * Starts the controllers that delete namespaces, collect objects without an owner, and count quotas. Resolves
 * when all three work. They stop when this process exits.
 */
export async function startControllers(
  binary: string,
  { url, ca, adminToken, call }: Pick<Kubernetes, "url" | "ca" | "adminToken" | "call">,
): Promise<Controllers> {
  const folder = await mkdtemp(join(tmpdir(), "deputize-controllers-"));
  const kubeconfig = join(folder, "config");
  await writeFile(kubeconfig, kubeconfigText({ url, ca }, { token: adminToken }));
  const log = await open(join(folder, "controllers.log"), "w");
  const child = spawnTied(
    binary,
    [
      "kube-controller-manager",
      `--kubeconfig=${kubeconfig}`,
      `--controllers=${CONTROLLERS.join(",")}`,
      "--leader-elect=false",
      "--secure-port=0",
    ],
    { cwd: folder, env: { PATH: process.env.PATH, HOME: folder }, stdio: ["ignore", log.fd, log.fd] },
  );
  await log.close();
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await until("the controllers run", async () => {
      const { status } = await call("GET", "/api/v1/namespaces/default/serviceaccounts/default");
      return status === 200;
    });
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  await exit;
}
