import type { Credentials, PlatformAnswer } from "../../operator_calls.ts";
import type { Platform } from "../kinds.ts";
import type { Secret } from "../resources.ts";

/** Type of the Secrets that the operator writes, and the only one it ever touches. */
export const SECRET_TYPE = "deputize.io/platform-credentials";

const OWNER = "deputize.io/platform-uid";
const OWNER_NAME = "deputize.io/platform";
const ISSUED_AT = "deputize.io/issued-at";
const NAMES = [
  "api_key",
  "api_key_prefix",
  "connection_id",
  "platform_id",
  "signing_secret",
  "webhook_signing_secret",
  "base_url",
] as const;

/** A Secret as it is to be written. */
export type WantedSecret = Omit<Secret, "version">;

/** Name of the Secret for a Platform's credentials. */
export function secretName({ metadata, spec }: Platform): string {
  return spec.credentialsSecretName ?? `${metadata.name}-credentials`;
}

/**
 * Whether the operator wrote a Secret, and for this Platform, or for a former one of its name: that is gone,
 * and what it left behind is this one's.
 */
export function isOwnSecret({ type, annotations }: Secret, { metadata }: Platform): boolean {
  if (type !== SECRET_TYPE) return false;
  return annotations[OWNER] === metadata.uid || annotations[OWNER_NAME] === metadata.name;
}

function ownerOf({ metadata: { uid, name } }: Platform): Record<string, string> {
  return { [OWNER]: uid, [OWNER_NAME]: name };
}

/**
 * Whether a Secret is the Platform's own and holds the whole of the credentials whose key has this prefix.
 */
export function holdsKey(secret: Secret, platform: Platform, prefix: string): boolean {
  const isWhole = NAMES.every((name) => (secret.data[name] ?? "") !== "");
  return isOwnSecret(secret, platform) && isWhole && secret.data.api_key_prefix === prefix;
}

/** When the key in a Secret was issued; the beginning of time when it does not say. */
export function issuedAt(secret: Pick<Secret, "annotations">): Date {
  const time = new Date(secret.annotations[ISSUED_AT] ?? "");
  return Number.isNaN(time.getTime()) ? new Date(0) : time;
}

/** The Secret of credentials that were just delivered. */
export function deliveredSecret(
  platform: Platform,
  answer: PlatformAnswer,
  { api_key, signing_secret, webhook_signing_secret }: Credentials,
  { apiUrl, issued }: { apiUrl: string; issued: Date },
): WantedSecret {
  return {
    namespace: platform.metadata.namespace,
    name: secretName(platform),
    type: SECRET_TYPE,
    annotations: { ...ownerOf(platform), [ISSUED_AT]: issued.toISOString() },
    data: {
      api_key,
      api_key_prefix: answer.api_key_prefix,
      connection_id: answer.connection_id,
      platform_id: answer.platform_id,
      signing_secret,
      webhook_signing_secret,
      base_url: apiUrl,
    },
  };
}

/** The Secret that holds the same credentials under the name and base URL wanted now. */
export function movedSecret(held: Secret, platform: Platform, apiUrl: string): WantedSecret {
  const { version: _, ...secret } = held;
  return {
    ...secret,
    name: secretName(platform),
    annotations: { ...held.annotations, ...ownerOf(platform) },
    data: { ...held.data, base_url: apiUrl },
  };
}
