import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import type { SealState } from "../lifecycle/sealing.ts";
import { encryptPin } from "../token/pin_box.ts";
import { ask, CallError, type RemoteOptions, withRemoteOptions } from "./ask_vault.ts";
import { print } from "./display.ts";
import { readPin } from "./read_input.ts";

const ABOUT_SEAL = `Seal a running vault immediately, with an admin's certificate. This ends the process that is logged in to the token and overwrites all keys in memory. Until "keyvault unseal" the vault signs nothing, makes no keys and only shows its status. A PIN file is not read until the next start.`;

const ABOUT_UNSEAL = `Open a sealed vault with the token's PIN and an admin's certificate. The command asks for the PIN without showing it. Without a terminal, it reads the PIN from the first line of standard input.

The PIN is encrypted here to a one-time key of the process that owns the token, and only that process can read it. Everything in between, including the vault's HTTP process, passes on the encrypted PIN and cannot read it. After a wrong PIN the next attempt must wait for 1 s, then 2 s, up to a minute.

Many HSMs lock their PIN permanently after a few wrong ones. If the token reports that it locks after one more wrong PIN, the vault tries a PIN only with --final-try.`;

/** How long to wait for the token's process. It starts in a second, but after faults the vault delays it. */
const OFFER_DEADLINE_MS = 30_000;
const RETRY_MS = 500;

type UnsealOptions = RemoteOptions & { pinFile?: string; finalTry?: true };

/** `keyvault seal` */
export function sealCommand(): Command {
  const command = new Command("seal").summary("stop all signing, immediately").description(ABOUT_SEAL);
  return withRemoteOptions(command).action(async (options: RemoteOptions) => {
    const sealed = (await ask(options, "/v1/seal", {})) as SealState & { sealed: true };
    print(options, sealed, `The vault has been sealed since ${sealed.since}. "keyvault unseal" opens it.\n`);
  });
}

/** `keyvault unseal` */
export function unsealCommand(): Command {
  const command = new Command("unseal").summary("open a sealed vault with its PIN").description(ABOUT_UNSEAL);
  return withRemoteOptions(command)
    .option("--pin-file <file>", "read the PIN from this file instead")
    .option("--final-try", "try the PIN even if the token locks after one more wrong PIN")
    .action(async (options: UnsealOptions) => {
      await askForOffer(options);
      const pin = await readPin(options.pinFile);
      try {
        const offer = await askForOffer(options);
        const box = encryptPin(pin, Buffer.from(offer, "base64")).toString("base64");
        const answer = await ask(options, "/v1/unseal", {
          offer,
          box,
          ...(options.finalTry && { final_try: true }),
        });
        print(options, answer, "The vault is open.\n");
      } finally {
        pin.fill(0);
      }
    });
}

/** Waits up to 30 s while the token's process starts. Throws like {@link ask}. */
async function askForOffer(options: RemoteOptions): Promise<string> {
  const deadline = performance.now() + OFFER_DEADLINE_MS;
  for (;;) {
    try {
      return ((await ask(options, "/v1/unseal")) as { offer: string }).offer;
    } catch (error) {
      const isStarting = error instanceof CallError && error.code === "token_unavailable";
      if (!isStarting || performance.now() > deadline) throw error;
    }
    await sleep(RETRY_MS);
  }
}
