import type { Mailer } from "../../../src/accounts/mail/smtp.ts";
import type { ApiOptions } from "../api.ts";
import { createFakeVault } from "../fake_vault.ts";

/** Calls of the API to the mail server, to DNS and to the vault. */
export type SlowCall = "send" | "lookupTxt" | "signDelegation" | "createKey";

/** Servers of a test API whose answers can be held back. */
export type SlowServers = {
  /** The API's options for these servers. */
  options: Required<Pick<ApiOptions, "lookupTxt" | "mailer" | "vault">>;
  /** Holds back the next answer to a call until `release`. `isReached` resolves when this answer exists. */
  holdBack(name: SlowCall): { isReached: Promise<void>; release(): void };
};

/** Creates servers that answer immediately. Every TXT record exists. */
export function createSlowServers(): SlowServers {
  const held = new Map<SlowCall, () => Promise<void>>();
  const slow =
    <T extends unknown[], R>(name: SlowCall, answerOf: (...call: T) => Promise<R>) =>
    async (...call: T): Promise<R> => {
      const answer = await answerOf(...call);
      await held.get(name)?.();
      return answer;
    };
  const vault = createFakeVault();
  vault.signDelegation = slow("signDelegation", vault.signDelegation);
  vault.createKey = slow("createKey", vault.createKey);
  return {
    options: {
      lookupTxt: slow("lookupTxt", async () => "found" as const),
      mailer: (own): Mailer => ({ ...own, send: slow("send", (mail) => own.send(mail)) }),
      vault,
    },
    holdBack(name) {
      const { promise: isReached, resolve: reach } = Promise.withResolvers<void>();
      const { promise: isFree, resolve: release } = Promise.withResolvers<void>();
      held.set(name, () => {
        held.delete(name);
        reach();
        return isFree;
      });
      return { isReached, release };
    },
  };
}
