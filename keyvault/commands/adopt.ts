import { Command } from "commander";
import type { AdoptionAnswer } from "../lifecycle/adopt_states.ts";
import { ask, type RemoteOptions, withRemoteOptions } from "./remote/call.ts";

const ABOUT = `Give codes to the keys and tenants that a version without codes left, by two admins: the first one's wish waits 24 hours for another admin to run the same command with a certificate of another name. Until then they are shown as DAMAGED and sign nothing.

Nothing proves that such a row is as the vault left it: look at them ("keyvault keys list", "keyvault keys show") and compare the ceilings and states with what you know before you run this. Both admins are shown the same fingerprint of the rows; a row that is altered in between makes another wish of the second.`;

/** `keyvault adopt` */
export function adoptCommand(): Command {
  const command = new Command("adopt")
    .summary("take over the rows of a version without codes (two admins)")
    .description(ABOUT);
  return withRemoteOptions(command).action(async (options: RemoteOptions) => {
    const outcome = (await ask(options, "/v1/states/adopt", {}, TIMEOUT_MS)) as AdoptionAnswer;
    process.stdout.write(options.json ? `${JSON.stringify(outcome)}\n` : describeAnswer(outcome));
  });
}

const TIMEOUT_MS = 300_000;

function describeAnswer({ adopted, keys, tenants, rows }: AdoptionAnswer): string {
  const what = `${keys} keys and ${tenants} tenants`;
  const fingerprint = `fingerprint    ${rows}\n`;
  return adopted
    ? `Adopted ${what}.\n${fingerprint}`
    : `${what} wait: another admin must run the same command within 24 hours.\n${fingerprint}`;
}
