import { once } from "node:events";
import { join } from "node:path";
import { NO_INSPECTOR, spawnLogged } from "./process/part.ts";
import { UserError } from "./user_error.ts";

/**
 * How `keyvault init` is run. All of its environment is in `env`; what it prints is appended to `logFile`.
 */
export type VaultInit = {
  program: string;
  env: Record<string, string | undefined>;
  logFile: string;
};

const GRACE_MS = 5000;
/** What the vault prints before a fault that a person can correct. */
const OWN_WORDS = /^keyvault: (.+)$/m;
/** What it says when it leaves the token alone: without its PIN file it could only be served sealed. */
const PIN_ABSENT = /^\{"step":"token",.*"absent":\["pin"\]/m;
/** The line of a stack trace that says what happened. */
const THROWN = /^(?:Uncaught )?(\w*Error\b.*)$/m;

/**
 * Makes what the vault needs; on a vault that has it, changes nothing. One without its PIN file is refused,
 * since nobody is here to unseal it. Throws `UserError` with the one line that says what went wrong, and
 * where the rest of it is.
 */
export async function initialiseVault({ program, env, logFile }: VaultInit): Promise<void> {
  const options = { env, graceMs: GRACE_MS, logFile };
  const { child, output } = await spawnLogged(
    process.execPath,
    [NO_INSPECTOR, program, "init", "--json"],
    options,
  );
  const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
  const said = await output();
  if (code === 0 && !PIN_ABSENT.test(said)) return;
  const pinFile = join(env.KEYVAULT_DATA_DIR ?? "", "pin");
  const own = code === 0 ? `the PIN file ${pinFile} is not there; put it back` : OWN_WORDS.exec(said)?.[1];
  const reason = own ?? THROWN.exec(said)?.[1] ?? signal ?? `exit status ${code}`;
  const remedy = own === undefined ? "" : "Put that right, or start afresh with another folder: --data\n";
  throw new UserError(`The key vault could not be made ready: ${reason}`, `${remedy}Its log is ${logFile}`);
}
