import { z } from "zod";
import type { Credentials, PlatformAnswer } from "../../operator_calls.ts";
import type { Platform } from "../kinds.ts";
import type { Secret } from "../resources.ts";

/** Type of the Secrets that the operator writes, and the only one it ever touches. */
export const SECRET_TYPE = "deputize.io/platform-credentials";

const OWNER = "deputize.io/platform-uid";
const OWNER_NAME = "deputize.io/platform";
const ISSUED_AT = "deputize.io/issued-at";
const VERSION = "deputize.io/credentials-version";
const ROTATE_KEY = "deputize.io/rotate-key";
const TEMPLATE = "deputize.io/template";
const OURS = "deputize.io/";
const MANAGED_BY = "app.kubernetes.io/managed-by";
const MAX_REQUEST_LENGTH = 256;
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

/** The number of a Secret's key: it grows with every new one. 0 when the Secret does not say. */
export function versionOf({ annotations }: Pick<Secret, "annotations">): number {
  const version = Number(annotations[VERSION] ?? "0");
  return Number.isSafeInteger(version) && version > 0 ? version : 0;
}

/** What the Platform's annotation asks a new key with, any text; `undefined`: nothing is asked. */
export function rotationRequest({ metadata }: Pick<Platform, "metadata">): string | undefined {
  return metadata.annotations?.[ROTATE_KEY]?.slice(0, MAX_REQUEST_LENGTH);
}

/** The request for a new key that was carried out last. */
export function handledRequest({ annotations }: Pick<Secret, "annotations">): string | undefined {
  return annotations[ROTATE_KEY];
}

/** Whether a new key is asked for that the Secret does not hold yet. */
export function isRotationAsked(platform: Platform, secret: Pick<Secret, "annotations">): boolean {
  const request = rotationRequest(platform);
  return request !== undefined && request !== handledRequest(secret);
}

/** What a Secret says of its key: when it was issued, its number, and the request it was made for. */
type KeyNote = { issued: Date; version: number; request: string | undefined };

/** What a Secret says of the key that it holds. */
export function keyNoteOf(secret: Pick<Secret, "annotations">): KeyNote {
  return { issued: issuedAt(secret), version: versionOf(secret), request: handledRequest(secret) };
}

/** The Secret of credentials that were just delivered. */
export function deliveredSecret(
  platform: Platform,
  answer: PlatformAnswer,
  { api_key, signing_secret, webhook_signing_secret }: Credentials,
  { apiUrl, ...key }: { apiUrl: string } & KeyNote,
): WantedSecret {
  const data = {
    api_key,
    api_key_prefix: answer.api_key_prefix,
    connection_id: answer.connection_id,
    platform_id: answer.platform_id,
    signing_secret,
    webhook_signing_secret,
    base_url: apiUrl,
  };
  return wantedSecret(platform, data, key);
}

/** The Secret that holds the same credentials under the name and base URL wanted now. */
export function movedSecret(held: Secret, platform: Platform, apiUrl: string): WantedSecret {
  const data = { ...held.data, base_url: apiUrl };
  return wantedSecret(platform, data, keyNoteOf(held));
}

function wantedSecret(
  platform: Platform,
  data: Record<string, string>,
  { issued, version, request }: KeyNote,
): WantedSecret {
  const { metadata, spec } = platform;
  const { labels = {}, annotations = {} } = spec.secretTemplate ?? {};
  const names = { labels: Object.keys(labels), annotations: Object.keys(annotations) };
  return {
    namespace: metadata.namespace,
    name: secretName(platform),
    type: SECRET_TYPE,
    labels: { ...labels, [MANAGED_BY]: "deputize" },
    annotations: {
      ...annotations,
      [OWNER]: metadata.uid,
      [OWNER_NAME]: metadata.name,
      [ISSUED_AT]: issued.toISOString(),
      [VERSION]: String(version),
      ...(request !== undefined && { [ROTATE_KEY]: request }),
      ...(spec.secretTemplate !== undefined && { [TEMPLATE]: JSON.stringify(names) }),
    },
    data,
  };
}

/**
 * The wanted Secret with the labels and annotations that others gave the one that is there. What an earlier
 * template gave it, and this one does not, goes.
 */
export function withOthersMarks(wanted: WantedSecret, current: Secret | undefined): WantedSecret {
  if (current === undefined) return wanted;
  const ours = templateNames(current);
  const others = (marks: Record<string, string>, names: ReadonlySet<string>) =>
    Object.fromEntries(Object.entries(marks).filter(([name]) => !names.has(name) && !name.startsWith(OURS)));
  return {
    ...wanted,
    labels: { ...others(current.labels, ours.labels), ...wanted.labels },
    annotations: { ...others(current.annotations, ours.annotations), ...wanted.annotations },
  };
}

const templateNote = z.object({ labels: z.array(z.string()), annotations: z.array(z.string()) });

/** What a template gave a Secret; nothing when its note of that was spoilt. */
function templateNames({ annotations }: Secret): { labels: Set<string>; annotations: Set<string> } {
  const note = templateNote.safeParse(jsonOf(annotations[TEMPLATE]));
  const { labels, annotations: noted } = note.success ? note.data : { labels: [], annotations: [] };
  return { labels: new Set(labels), annotations: new Set(noted) };
}

function jsonOf(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
}
