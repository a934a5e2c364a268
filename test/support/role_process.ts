import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { PROGRAM } from "./dev_stack.ts";
import { killHard, until } from "./process.ts";

export type RoleProcess = {
  child: ChildProcess;
  log: Record<string, unknown>[];
  errors(): string;
  /** Returns the HTTP status of a health page, or 0 while the port does not answer. */
  health(page: "/livez" | "/readyz"): Promise<number>;
  /** Resolves when the role is ready. Rejects if the role exits first. */
  ready(): Promise<void>;
  end(signal?: NodeJS.Signals): Promise<number | null>;
  exit: Promise<number | null>;
};

type Environment = Record<string, string>;
/** `before` is a command with arguments that then runs Node. */
type How = Pick<SpawnOptions, "cwd"> & { before?: readonly string[] };

const READY_MS = 90_000;

/** Starts `deputize <role>` with exactly these settings. */
export function startRole(
  role: string,
  environment: Environment,
  { before = [], ...how }: How = {},
): RoleProcess {
  const [command = "", ...args] = [...before, process.execPath, PROGRAM, role];
  const child = spawn(command, args, {
    ...how,
    env: { HEALTH_PORT: "0", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const log: Record<string, unknown>[] = [];
  let errors = "";
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    log.push(JSON.parse(line));
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    errors += chunk;
  });
  const exit = once(child, "close").then(([status]) => status as number | null);
  const health = async (page: string): Promise<number> => {
    const port = log.find((line) => "health_port" in line)?.health_port;
    if (port === undefined) return 0;
    return fetch(`http://127.0.0.1:${port}${page}`).then(
      ({ status }) => status,
      () => 0,
    );
  };
  return {
    child,
    log,
    errors: () => errors,
    health,
    async ready() {
      const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
      await until(`${role} is ready`, async () => hasEnded() || (await health("/readyz")) === 200, READY_MS);
      if (hasEnded()) throw new Error(`${role} ended: ${JSON.stringify(log.at(-1))} ${errors}`);
    },
    async end(signal = "SIGTERM") {
      child.kill(signal);
      return exit;
    },
    exit,
  };
}

export async function killRoles(roles: RoleProcess[]): Promise<void> {
  await Promise.all(roles.splice(0).map(({ child }) => killHard(child)));
}
