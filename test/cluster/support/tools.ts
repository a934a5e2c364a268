import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { spawnTied } from "../../../src/dev/process/lifeline.mjs";
import { freePort } from "../../../src/dev/process/ports.ts";
import { hasExited } from "../../soak/programs.ts";
import { until } from "../../support/process.ts";
import type { Cluster } from "./cluster.ts";
import { run } from "./run.ts";

export type Tools = {
  /** Namespace of the release. */
  namespace: string;
  kubectl(...args: string[]): Promise<string>;
  kubectlWith(input: string, ...args: string[]): Promise<string>;
  /** Writes kubectl's output to a file, byte for byte. */
  save(file: string, ...args: string[]): Promise<void>;
  /** Runs kubectl with `-o json`, and returns the parsed output. */
  read<T>(...args: string[]): Promise<T>;
  apply(...objects: object[]): Promise<void>;
  /** Posts an object to a path of the API server. */
  create(path: string, object: object): Promise<void>;
  helm(...args: string[]): Promise<string>;
  /** Forwards a local port to a port of a pod or Service, even after that pod or Service was replaced. */
  forward(namespace: string, target: string, port: number): Promise<Forward>;
};

export type Forward = { port: number; close(): Promise<void> };

/** Returns kubectl and helm with administrator rights. */
export function toolsOf({ kubeconfig, helm }: Cluster, namespace: string): Tools {
  const env = { KUBECONFIG: kubeconfig };
  const kubectlWith = (input: string, ...args: string[]) => run("kubectl", args, { env, input });
  const kubectl = (...args: string[]) => kubectlWith("", ...args);
  return {
    namespace,
    kubectl,
    kubectlWith,
    async save(file, ...args) {
      await run("sh", ["-c", 'exec kubectl "$@" >"$0"', file, ...args], { env });
    },
    read: async (...args) => JSON.parse(await kubectl(...args, "-o", "json")),
    async apply(...objects) {
      const list = { apiVersion: "v1", kind: "List", items: objects };
      await kubectlWith(JSON.stringify(list), "apply", "-f", "-");
    },
    async create(path, object) {
      await kubectlWith(JSON.stringify(object), "create", "--raw", path, "-f", "-");
    },
    helm: (...args) => run(helm, args, { env }),
    forward: (namespace, target, port) => keepForward(env, ["-n", namespace, "port-forward", target], port),
  };
}

const PAUSE_MS = 200;

async function keepForward(env: Record<string, string>, args: string[], port: number): Promise<Forward> {
  const own = await freePort();
  let [isOver, child] = [false, undefined as ChildProcess | undefined];
  const kept = (async () => {
    while (!isOver) {
      child = spawnTied("kubectl", [...args, `${own}:${port}`], {
        env: { ...process.env, ...env },
        stdio: ["ignore", "ignore", "ignore"],
      });
      await once(child, "exit");
      await sleep(PAUSE_MS);
    }
  })();
  await until(`${args.join(" ")} answers`, () => answers(own), 60_000);
  return {
    port: own,
    async close() {
      isOver = true;
      if (child !== undefined && !hasExited(child)) child.kill("SIGTERM");
      await kept;
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
