import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { networkOf } from "../../rates/client_rates.ts";

/**
 * The three secrets of a session: they exist here and in the browser only, the database keeps their SHA-256.
 */
export type Tokens = { sessionToken: string; refreshToken: string; csrfToken: string };

/** Makes sessions' tokens. */
export type SessionTokens = {
  /** Random ones, of a sign-in. */
  first(): Tokens;
  /**
   * Those that a refresh token is exchanged for: always the same ones, so that two answers to one token
   * agree, and unknown to anybody who has the token without the service's key.
   */
  next(refreshToken: string): Tokens;
  /**
   * A client as far as a repeated refresh must be the same one's: its network and its user agent, as a keyed
   * hash.
   */
  client(ip: string, userAgent: string | undefined): Buffer;
};

/**
 * Tokens under a key of their own, derived from the 32-byte sealing key, and so the same on every replica.
 */
export function createSessionTokens(sealingKey: Uint8Array): SessionTokens {
  const key = Buffer.from(hkdfSync("sha256", sealingKey, "", "deputize session tokens v1", 32));
  const mac = (...parts: string[]) => createHmac("sha256", key).update(JSON.stringify(parts)).digest();
  const random = () => randomBytes(32).toString("base64url");
  return {
    first: () => ({ sessionToken: random(), refreshToken: random(), csrfToken: random() }),
    next(refreshToken) {
      const derived = (kind: string) => mac(kind, refreshToken).toString("base64url");
      return {
        sessionToken: derived("session"),
        refreshToken: derived("refresh"),
        csrfToken: derived("csrf"),
      };
    },
    client: (ip, userAgent) => mac("client", networkOf(ip), userAgent ?? ""),
  };
}
