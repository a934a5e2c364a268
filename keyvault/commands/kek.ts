import { setTimeout as sleep } from "node:timers/promises";
import { Command, InvalidArgumentError } from "commander";
import { exitStatus, UserError } from "../errors.ts";
import type { RewrapProgress } from "../kek/rewrap.ts";
import type { Status } from "../status.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { createProgressBar, print } from "./display.ts";

const POLL_MS = 200;
/** How long to wait for a retirement. The proof for a million data keys takes some minutes. */
const RETIRE_TIMEOUT_MS = 1_800_000;

const ABOUT_ROTATE = `Make the next version of the key-encryption key inside the token. From then on it wraps the data keys of new tenants. Existing data keys stay under their version until "keyvault kek rewrap".

Take a backup before you do anything else, because earlier backups do not contain the new version: use "keyvault backup create", and for another module's token its vendor's tools. Old versions stay in the token, because old backups of the database need them.`;

const ABOUT_REWRAP = `Wrap every tenant's data key again under the newest version. The vault continues to sign. After an interruption, run the command again to continue. Ctrl-C ends the display but not the work.

Exit status: 0 if everything is under the newest version, 1 if some data keys are damaged (the command names their tenants), 3 if the vault does not answer.`;

const ABOUT_RETIRE = `Destroy an older version of the key-encryption key in the token, permanently. Refused for the newest version and for a version that a data key needs. To check this, the vault first opens every data key under a version that remains. The vault continues to sign meanwhile.

Backups taken before the rewrap are then useless, except together with a backup of the token. That is the purpose of retiring. Take a backup first.

Exit status: 0 if the version is destroyed, 1 if not, 3 if the vault does not answer.`;

/** `keyvault kek …` */
export function kekCommand(): Command {
  const rotate = new Command("rotate")
    .summary("make a new version of the key-encryption key")
    .description(ABOUT_ROTATE);
  withRemoteOptions(rotate).action(async (options: RemoteOptions) => {
    const made = (await ask(options, "/v1/kek/rotate", {})) as { kek: string; keks: string[] };
    const next = 'Next: "keyvault backup create", then "keyvault kek rewrap".';
    print(options, made, `${made.kek} wraps new data keys from now on.\n${next}\n`);
  });
  const rewrap = new Command("rewrap")
    .summary("wrap all data keys under the newest version")
    .description(ABOUT_REWRAP);
  withRemoteOptions(rewrap).action(runRewrap);
  const retire = new Command("retire")
    .summary("destroy a version that no longer wraps anything")
    .description(ABOUT_RETIRE)
    .argument("<version>", "the version, for instance kek-1", parseVersion);
  withRemoteOptions(retire).action(async (kek: string, options: RemoteOptions) => {
    const { retired, keks } = await runRetire(options, kek);
    print(options, { retired, keks }, `${retired} is destroyed. The token has ${keks.join(", ")}.\n`);
  });
  return new Command("kek")
    .summary("rotate the key-encryption key")
    .addCommand(rotate)
    .addCommand(rewrap)
    .addCommand(retire);
}

async function runRewrap(options: RemoteOptions): Promise<void> {
  const bar = createProgressBar();
  let progress = (await ask(options, "/v1/kek/rewrap", {})) as RewrapProgress;
  while (progress.running) {
    bar.show(progress.done, progress.done + progress.remaining);
    await sleep(POLL_MS);
    const { kek } = (await ask(options, "/v1/status")) as Status;
    if (kek === null) throw new UserError("Not finished: the vault was sealed");
    progress = kek;
  }
  bar.show(progress.done, progress.done + progress.remaining);
  bar.end();
  print(options, progress, `${describe(progress)}\n`);
  if (progress.fault !== null) {
    throw new UserError(`Not finished (${progress.fault}): run the command again to continue`);
  }
  if (progress.remaining > 0) throw new UserError("Not finished: run the command again to continue");
  if (progress.damaged.length > 0) process.exitCode = exitStatus.failed;
}

async function runRetire(options: RemoteOptions, kek: string): Promise<{ retired: string; keks: string[] }> {
  const answer = ask(options, "/v1/kek/retire", { kek }, RETIRE_TIMEOUT_MS) as ReturnType<typeof runRetire>;
  const ended = answer.then(yes, yes);
  const bar = createProgressBar();
  let shown = false;
  while (!(await Promise.race([ended, sleep(POLL_MS, false)]))) {
    const { retiring } = ((await ask(options, "/v1/status").catch(() => undefined)) ?? {}) as Partial<Status>;
    if (!retiring) continue;
    bar.show(retiring.proven, retiring.of);
    shown = true;
  }
  if (shown) bar.end();
  return answer;
}

const yes = (): boolean => true;

function describe({ kek, done, remaining, damaged }: RewrapProgress): string {
  if (done + remaining + damaged.length === 0) return `All data keys are under ${kek} already.`;
  const lines = [`${done} data keys rewrapped under ${kek}, ${remaining} remaining.`];
  if (damaged.length > 0) lines.push(`${damaged.length} do not open: tenants ${damaged.join(", ")}`);
  return lines.join("\n");
}

function parseVersion(text: string): string {
  if (!/^kek-[1-9]\d{0,8}$/.test(text)) {
    throw new InvalidArgumentError("Give kek- and a number, such as kek-1.");
  }
  return text;
}
