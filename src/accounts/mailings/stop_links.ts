import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { isUuid } from "../../ids.ts";
import { type MailKind, mailKinds } from "./kinds.ts";

/** Tokens with which a person can stop one kind of mail without a session, and nothing else. */
export type StopTokens = {
  create(accountId: string, kind: MailKind): string;
  /** Returns whose mails of which kind a token stops, or `undefined` for a token that is not valid. */
  read(token: string): { accountId: string; kind: MailKind } | undefined;
};

const MAC_BYTES = 16;

/** Derives the key of the tokens from the sealing key. A token does not expire: an old mail still works. */
export function createStopTokens(sealingKey: Uint8Array): StopTokens {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize mail stop tokens v1", 32));
  const mac = (accountId: string, kind: string) =>
    createHmac("sha256", key).update(`${accountId}.${kind}`).digest().subarray(0, MAC_BYTES);
  return {
    create: (accountId, kind) => `${accountId}.${kind}.${mac(accountId, kind).toString("base64url")}`,
    read(token) {
      const [accountId = "", kind = "", proof = "", ...more] = token.split(".");
      const known = mailKinds.find((each) => each === kind);
      const given = Buffer.from(proof, "base64url");
      if (known === undefined || more.length > 0 || !isUuid(accountId) || given.length !== MAC_BYTES) {
        return undefined;
      }
      return timingSafeEqual(given, mac(accountId, known)) ? { accountId, kind: known } : undefined;
    },
  };
}
