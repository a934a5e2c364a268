import { randomBytes } from "node:crypto";

const SECRET_BYTES = 32;

/** A new platform signing secret: `dps_` and 32 random bytes in base64url. */
export function newSigningSecret(): string {
  return `dps_${randomBytes(SECRET_BYTES).toString("base64url")}`;
}

/** The box's context of `platforms.signing_secret_sealed`. */
export function signingSecretContext(platformId: string): string {
  return `platforms.signing_secret:${platformId}`;
}
