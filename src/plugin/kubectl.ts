import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** An error that the user can correct. The message says how. */
export class Failure extends Error {}

/** An invalid command line. */
export class UsageFailure extends Failure {}

/** An object of the cluster as JSON. */
export type KubernetesObject = {
  apiVersion?: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generation?: number;
    creationTimestamp?: string;
    deletionTimestamp?: string;
    finalizers?: string[];
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
};

/** A failure of kubectl, with kubectl's message. */
export class KubectlFailure extends Failure {
  readonly isMissing: boolean;
  readonly isForbidden: boolean;
  /** Whether another write to the object came first. */
  readonly isConflict: boolean;
  /** The output that kubectl printed before it failed. */
  readonly out: string;

  constructor(message: string, out = "") {
    super(message);
    this.out = out;
    this.isForbidden = /\(Forbidden\)/.test(message);
    this.isMissing = /\(NotFound\)/.test(message);
    this.isConflict = /\(Conflict\)|the object has been modified/.test(message);
  }
}

/** Runs kubectl, so that contexts, credential plugins, proxies and impersonation work as usual. */
export type Kubectl = {
  /** Returns the output. Throws `KubectlFailure`. */
  run(args: readonly string[], input?: string): Promise<string>;
  /** Parses the output as JSON. Throws `KubectlFailure`. */
  json<T>(args: readonly string[], input?: string): Promise<T>;
  /** Returns `undefined` if the object does not exist. */
  find<T extends KubernetesObject>(resource: string, name: string): Promise<T | undefined>;
  list<T extends KubernetesObject>(args: readonly string[]): Promise<T[]>;
};

/** A log line that kubectl writes to its standard error besides its messages. */
const LOGGED = /^[EWIF]\d{4} .*\n?/gm;

/** Returns kubectl's messages without log lines, or all of its standard error if there are only log lines. */
function withoutLogLines(err: string): string {
  return err.replaceAll(LOGGED, "").trim() || err.trim();
}

/** Adds the common options before a command for a pod. A namespace in `args` takes precedence. */
function withCommon(args: readonly string[], common: readonly string[]): string[] {
  const added = args.includes("-n") ? common.filter((each) => !each.startsWith("--namespace=")) : common;
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  return [...args.slice(0, end), ...added, ...args.slice(end)];
}

/** Creates a runner of `program`. `common` is the options of every call, such as the namespace. */
export function createKubectl(common: readonly string[], program = "kubectl"): Kubectl {
  async function run(args: readonly string[], input = ""): Promise<string> {
    const child = spawn(program, withCommon(args, common), { stdio: ["pipe", "pipe", "pipe"] });
    // Ignores write errors, because a program that has read enough of its input closes the pipe.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    const ended = new Promise<number>((resolve, reject) => {
      child.on("error", () =>
        reject(new Failure(`${program} was not found: install it, or put it on the PATH`)),
      );
      child.on("close", (code) => resolve(code ?? 1));
    });
    const [code, out, err] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    if (code !== 0) {
      throw new KubectlFailure(withoutLogLines(err) || `${program} ended with status ${code}`, out);
    }
    return out;
  }

  const kubectl: Kubectl = {
    run,
    json: async (args, input) => JSON.parse(await run([...args, "-o", "json"], input)),
    async find<T extends KubernetesObject>(resource: string, name: string) {
      try {
        return await kubectl.json<T>(["get", resource, name]);
      } catch (error) {
        if (error instanceof KubectlFailure && error.isMissing) return undefined;
        throw error;
      }
    },
    list: async (args) => (await kubectl.json<{ items: never[] }>(["get", ...args])).items,
  };
  return kubectl;
}

type User = { username: string; uid?: string; groups?: string[] };

/** Returns the user that makes the calls. With impersonation, this is the impersonated user. */
export async function whoAmI(kubectl: Kubectl): Promise<User> {
  const { status } = await kubectl.json<{ status: { userInfo: User } }>(["auth", "whoami"]);
  return status.userInfo;
}
