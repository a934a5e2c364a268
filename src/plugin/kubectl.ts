import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** Something that a person can correct: the message says what. */
export class Failure extends Error {}

/** A command that cannot be understood. */
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

/** What kubectl refused or could not do, in its words. */
export class KubectlFailure extends Failure {
  /** Whether what was named is not there. */
  readonly isMissing: boolean;
  /** Whether another write came before. */
  readonly isConflict: boolean;

  constructor(message: string) {
    super(message);
    this.isMissing = /\(NotFound\)/.test(message);
    this.isConflict = /\(Conflict\)|the object has been modified/.test(message);
  }
}

/** Runs kubectl: contexts, plugins for credentials, proxies and impersonation are as people know them. */
export type Kubectl = {
  /** What it printed. Throws `KubectlFailure`. */
  run(args: readonly string[], input?: string): Promise<string>;
  /** The same, as JSON. */
  json<T>(args: readonly string[], input?: string): Promise<T>;
  /** One object; `undefined` when there is none. */
  find<T extends KubernetesObject>(resource: string, name: string): Promise<T | undefined>;
  /** All objects that the arguments select. */
  list<T extends KubernetesObject>(args: readonly string[]): Promise<T[]>;
};

/** A line of the log that kubectl writes beside what it says. */
const LOGGED = /^[EWIF]\d{4} .*\n?/gm;

/** What kubectl says to people; all that it wrote where that is nothing. */
function said(err: string): string {
  return err.replaceAll(LOGGED, "").trim() || err.trim();
}

/** Runs `program` with arguments that every call gets: context, namespace and whom it acts as. */
export function createKubectl(common: readonly string[], program = "kubectl"): Kubectl {
  async function run(args: readonly string[], input = ""): Promise<string> {
    const child = spawn(program, [...args, ...common], { stdio: ["pipe", "pipe", "pipe"] });
    // Who has read enough closes the pipe.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    const ended = new Promise<number>((resolve, reject) => {
      child.on("error", () =>
        reject(new Failure(`${program} is not there: install it, or put it on the PATH`)),
      );
      child.on("close", (code) => resolve(code ?? 1));
    });
    const [code, out, err] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
    if (code !== 0) throw new KubectlFailure(said(err) || `${program} ended with status ${code}`);
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

/** A user as the cluster knows them. */
type User = { username: string; uid?: string; groups?: string[] };

/** Who makes the calls, also where somebody else is impersonated. */
export async function whoAmI(kubectl: Kubectl): Promise<User> {
  const { status } = await kubectl.json<{ status: { userInfo: User } }>(["auth", "whoami"]);
  return status.userInfo;
}
