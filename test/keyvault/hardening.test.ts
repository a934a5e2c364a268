import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listeningPorts, portsAfterSigusr1 } from "../support/inspector.ts";
import { createHome, type VaultHome } from "./fixture.ts";

const MAIN = fileURLToPath(new URL("../../keyvault/main.ts", import.meta.url));
const START_DEADLINE_MS = 60_000;
const hasProc = existsSync("/proc/self/limits");

type Event = { event?: string; file?: string };

let home: VaultHome;
let vault: ChildProcess;
let events: Event[];

/** Started as carelessly as can be: core files without a bound, no option of Node's. */
beforeAll(async () => {
  home = await createHome();
  [vault, events] = await start();
});
afterAll(async () => {
  vault?.kill("SIGKILL");
  await home?.remove();
});

async function start(): Promise<[ChildProcess, Event[]]> {
  const script = 'ulimit -c unlimited; exec "$0" "$@"';
  const child = spawn("/bin/sh", ["-c", script, process.execPath, MAIN, "serve"], {
    env: { ...home.environment, KEYVAULT_LOG_LEVEL: "info" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const told: Event[] = [];
  const late = setTimeout(() => child.kill("SIGKILL"), START_DEADLINE_MS);
  await new Promise<void>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`exit ${code}`)));
    createInterface({ input: child.stdout! }).on("line", (line) => {
      told.push(JSON.parse(line) as Event);
      if (told.at(-1)?.event === "listening") resolve();
    });
  }).finally(() => clearTimeout(late));
  return [child, told];
}

const tokenProcess = (): number =>
  Number(readFileSync(`/proc/${vault.pid}/task/${vault.pid}/children`, "utf8").trim().split(" ")[0]);

test.skipIf(!hasProc)(
  "the vault and its token's process open no inspector on SIGUSR1, and go on",
  async () => {
    for (const pid of [vault.pid!, tokenProcess()]) {
      const before = listeningPorts(pid);
      expect(await portsAfterSigusr1(pid)).toEqual(before);
    }
    expect(vault.exitCode ?? vault.signalCode).toBeNull();
  },
);

test.skipIf(!hasProc)("neither of them writes a core file, whatever limit the vault was started with", () => {
  for (const pid of [vault.pid!, tokenProcess()])
    expect(readFileSync(`/proc/${pid}/limits`, "utf8")).toMatch(/^Max core file size +0 +0 /m);
  expect(events).not.toContainEqual(expect.objectContaining({ event: "core_files_possible" }));
});

test("the authority's key beside the running vault is warned of at each start, and not once it is away", async () => {
  const file = join(home.config.tlsDir, "ca.key");
  expect(events).toContainEqual(expect.objectContaining({ event: "authority_key_present", file }));
  vault.kill("SIGKILL");
  await rename(file, join(home.dir, "kept-elsewhere"));
  [vault, events] = await start();
  expect(events.map(({ event }) => event)).not.toContain("authority_key_present");
});

test("that other programs of its user can read its memory is said at the start", () => {
  expect(events).toContainEqual(expect.objectContaining({ event: "memory_readable" }));
});
