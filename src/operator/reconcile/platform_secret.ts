import { hash } from "node:crypto";
import { z } from "zod";
import { MAX_ROTATION_REQUEST } from "../../input/platform_fields.ts";
import type { Credentials, PlatformAnswer, PlatformState } from "../../operator_calls.ts";
import type { Metadata, Platform } from "../kinds.ts";
import type { Secret } from "../resources.ts";

/** Type of the Secrets that the operator writes. The operator touches no Secret of a different type. */
export const SECRET_TYPE = "deputize.io/platform-credentials";

/** Annotation with the uid of the Platform that owns a Secret. */
export const OWNER = "deputize.io/platform-uid";
const OWNER_NAME = "deputize.io/platform";
const ISSUED_AT = "deputize.io/issued-at";
const VERSION = "deputize.io/credentials-version";
/** Annotation with which people request a new key; in a Secret, the request that led to its key. */
export const ROTATE_KEY = "deputize.io/rotate-key";
const DIGEST = "deputize.io/content-sha256";
const TEMPLATE = "deputize.io/template";
const OURS = "deputize.io/";
/** Label of the Secrets that the operator writes. */
export const MANAGED_BY = "app.kubernetes.io/managed-by";
const NAMES = [
  "api_key",
  "api_key_prefix",
  "connection_id",
  "platform_id",
  "signing_secret",
  "webhook_signing_secret",
  "base_url",
] as const;
/** The ids that name the connection in an operation. The operator corrects them without a new key. */
const VERIFIER_IDS = ["workspace_id", "verifier_id"] as const;
/** The values that only the service can deliver again. The operator corrects `base_url` without a new key. */
const CREDENTIALS = NAMES.filter((name) => name !== "base_url");

/** A Secret to write. */
export type WantedSecret = Omit<Secret, "version">;

/** Returns the name of the Secret for a Platform's credentials. */
export function secretName({ metadata, spec }: Platform): string {
  return spec.credentialsSecretName ?? `${metadata.name}-credentials`;
}

/** Returns whether a Secret is this Platform's, also if a former Platform of the same name owned it. */
export function isOwnSecret({ type, annotations }: Secret, { metadata }: Platform): boolean {
  if (type !== SECRET_TYPE) return false;
  return annotations[OWNER] === metadata.uid || annotations[OWNER_NAME] === metadata.name;
}

/**
 * Returns whether a Secret is the Platform's own, and complete, with an API key of this prefix, and unchanged
 * since the operator wrote it.
 */
export function holdsKey(secret: Secret, platform: Platform, prefix: string): boolean {
  const isWhole = NAMES.every((name) => (secret.data[name] ?? "") !== "");
  return (
    isOwnSecret(secret, platform) && isWhole && secret.data.api_key_prefix === prefix && isUnchanged(secret)
  );
}

/** Returns whether a Secret has the verifier's ids of the API. */
export function holdsIds({ data }: Pick<Secret, "data">, state: VerifierIds): boolean {
  return Object.entries(idsOf(state)).every(([name, value]) => data[name] === value);
}

type VerifierIds = Pick<PlatformAnswer, (typeof VERIFIER_IDS)[number]>;

/** Returns the ids that the API named. */
function idsOf(answer: VerifierIds): Record<string, string> {
  const named = VERIFIER_IDS.flatMap((name) => {
    const value = answer[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(named);
}

/** Secrets of version 0.1 have no digest until the operator writes them again. */
function isUnchanged({ annotations, data }: Secret): boolean {
  return annotations[DIGEST] === undefined || annotations[DIGEST] === digestOf(data);
}

/** Returns a digest of the credentials. It reveals nothing, because each secret is random and long. */
function digestOf(data: Readonly<Record<string, string>>): string {
  return hash("sha256", JSON.stringify(CREDENTIALS.map((name) => data[name] ?? "")), "hex");
}

/** Returns when the key in a Secret was issued; the Unix epoch if the Secret does not state this. */
export function issuedAt(secret: Pick<Secret, "annotations">): Date {
  const time = new Date(secret.annotations[ISSUED_AT] ?? "");
  return Number.isNaN(time.getTime()) ? new Date(0) : time;
}

/** Returns the version number of the key in a Secret, which grows with every new key; 0 if not stated. */
export function versionOf({ annotations }: Pick<Secret, "annotations">): number {
  const version = Number(annotations[VERSION] ?? "0");
  return Number.isSafeInteger(version) && version > 0 ? version : 0;
}

/**
 * Returns the value of the annotation that requests a new key, cut to 256 characters. Half a character at the
 * cut is replaced, because it would not survive a round trip and would be a new request each time.
 */
export function rotationRequest({ metadata }: Keyed): string | undefined {
  return metadata.annotations?.[ROTATE_KEY]?.slice(0, MAX_ROTATION_REQUEST).toWellFormed();
}

/** Returns the request for a new key that a Secret states as carried out. */
function handledRequest({ annotations }: Pick<Secret, "annotations">): string | undefined {
  return annotations[ROTATE_KEY];
}

/** An object with a key, which its annotation can request anew. */
type Keyed = { metadata: Pick<Metadata, "annotations"> };

/** The facts about an object's current key in the API, where nobody in the cluster can change them. */
export type ApiKey = Pick<PlatformState, "api_key_issued_at" | "rotation_request">;

/** Returns the last request for a new key that was carried out, according to the API or the Secret. */
export function lastRequest(
  object: Keyed,
  key: ApiKey,
  secret: Pick<Secret, "annotations">,
): string | undefined {
  const handled = handledRequest(secret);
  return handled === rotationRequest(object) ? handled : (key.rotation_request ?? handled);
}

/**
 * Returns whether an object requests a new key. The request counts as carried out if the API says so, or
 * the Secret: before version 0029 of the schema, only the Secret did.
 */
export function isRotationAsked(object: Keyed, key: ApiKey, secret: Pick<Secret, "annotations">): boolean {
  const request = rotationRequest(object);
  return request !== undefined && request !== key.rotation_request && request !== handledRequest(secret);
}

/** `request` is the request that led to the key. */
type KeyNote = { issued: Date; version: number; request: string | undefined };

/** Returns the facts that a Secret states about its key. */
export function keyNoteOf(secret: Pick<Secret, "annotations">): KeyNote {
  return { issued: issuedAt(secret), version: versionOf(secret), request: handledRequest(secret) };
}

/** Returns the Secret for credentials that the API has just delivered. */
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
    ...idsOf(answer),
  };
  return wantedSecret(platform, data, key);
}

/** Returns a Secret with the same credentials, but with the current name, base URL and verifier's ids. */
export function movedSecret(
  held: Secret,
  platform: Platform,
  answer: VerifierIds,
  apiUrl: string,
): WantedSecret {
  const data = { ...held.data, base_url: apiUrl, ...idsOf(answer) };
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
      [DIGEST]: digestOf(data),
      ...(request !== undefined && { [ROTATE_KEY]: request }),
      ...(spec.secretTemplate !== undefined && { [TEMPLATE]: JSON.stringify(names) }),
    },
    data,
  };
}

/** Adds the labels and annotations of other writers to a Secret, but not those of a former template. */
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

/** Returns the template's label and annotation names, or none if the Secret's record of them is damaged. */
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
