import { isDeepStrictEqual } from "node:util";
import { durationSeconds } from "../../input/durations.ts";
import type { PlatformAnswer } from "../../operator_calls.ts";
import type { ApiFailure } from "../api_transport.ts";
import type { OperatorContext } from "../context.ts";
import type { Metadata, Platform, PlatformSpec } from "../kinds.ts";
import type { Secret } from "../resources.ts";
import {
  type ApiKey,
  deliveredSecret,
  holdsKey,
  isOwnSecret,
  isRotationAsked,
  keyNoteOf,
  movedSecret,
  rotationRequest,
  secretName,
  versionOf,
  type WantedSecret,
  withOthersMarks,
} from "./platform_secret.ts";

/**
 * The result of publishing credentials:
 * - `published`: the Secret contains the credentials.
 * - `not_owned`: a Secret of a different owner has the name.
 * - `raced`: another writer changed the Secret or the key meanwhile.
 * - `failed`: the API call failed.
 */
export type Publication =
  | { kind: "published"; answer: PlatformAnswer; secret: WantedSecret }
  | { kind: "not_owned" }
  | { kind: "raced" }
  | { kind: "failed"; failure: ApiFailure };

/** The Secrets of a Platform: the Secret with the current name, and the Secret with the former name. */
export type PlatformSecrets = { current?: Secret | undefined; former?: Secret | undefined };

/** Reads both Secrets of a Platform. */
export async function readSecrets(
  { resources }: Pick<OperatorContext, "resources">,
  platform: Platform,
): Promise<PlatformSecrets> {
  const { namespace } = platform.metadata;
  const name = secretName(platform);
  const formerName = platform.status.credentialsSecretName;
  return {
    current: await resources.readSecret(namespace, name),
    former:
      formerName === undefined || formerName === name
        ? undefined
        : await resources.readSecret(namespace, formerName),
  };
}

/** A Platform, or an Agent's metadata with its Platform's rotation. */
type Rotated = {
  metadata: Pick<Metadata, "annotations">;
  spec: { keyRotation?: PlatformSpec["keyRotation"] | undefined };
};

/** The time of a requested rotation. */
const ROTATE_NOW = new Date(0);

/**
 * Returns when the key in a Secret must be replaced: the Unix epoch if a rotation was requested, and
 * `undefined` for never. The key's age is the API's, because others can change what the Secret states.
 */
export function rotationDue(
  object: Rotated,
  key: ApiKey,
  secret: Pick<Secret, "annotations">,
): Date | undefined {
  const { spec } = object;
  if (isRotationAsked(object, key, secret)) return ROTATE_NOW;
  if (spec.keyRotation === undefined || key.api_key_issued_at === null) return undefined;
  return new Date(Date.parse(key.api_key_issued_at) + durationSeconds(spec.keyRotation.every) * 1000);
}

/** Returns whether a key must be replaced. Its age counts only if `agreed`, the time, is known. */
export function isRotationDue(
  object: Rotated,
  key: ApiKey,
  secret: Secret,
  agreed: Date | undefined,
): boolean {
  const due = rotationDue(object, key, secret);
  return due !== undefined && due <= (agreed ?? ROTATE_NOW);
}

/**
 * Ensures that the Secret contains the credentials of the API's current key. Stores and acknowledges
 * delivered credentials. Moves credentials from a Secret with the former name. Replaces a key that is lost or
 * due for rotation. Never touches a Secret that is not the Platform's own.
 */
export async function publishCredentials(
  context: OperatorContext,
  platform: Platform,
  answer: PlatformAnswer,
): Promise<Publication> {
  const secrets = await readSecrets(context, platform);
  const { current } = secrets;
  if (current !== undefined && !isOwnSecret(current, platform)) return { kind: "not_owned" };
  if (answer.credentials !== null) return store(context, platform, answer, secrets);
  const holder = Object.values(secrets).find(
    (secret) => secret !== undefined && holdsKey(secret, platform, answer.api_key_prefix),
  );
  const grace = durationSeconds(platform.spec.keyRotation?.grace ?? "");
  if (holder === undefined) return replaceKey(context, platform, secrets, isTakingOver(platform) ? grace : 0);
  const isDue = isRotationDue(platform, answer, holder, context.clock.agreed());
  if (isDue) return replaceKey(context, platform, secrets, grace);
  const moved = movedSecret(holder, platform, answer, context.apiUrl);
  return putSecret(context, platform, answer, secrets, moved);
}

/** Returns whether the object is adopting a platform. A key without a Secret may then be in use, not lost. */
function isTakingOver({ spec, status }: Platform): boolean {
  return spec.adopt !== undefined && status.platformID !== spec.adopt;
}

async function replaceKey(
  context: OperatorContext,
  platform: Platform,
  secrets: PlatformSecrets,
  graceSeconds: number,
): Promise<Publication> {
  const { value, failure } = await context.api.rotateCredentials(
    context.externalIdOf(platform),
    graceSeconds,
    rotationRequest(platform),
  );
  return failure === undefined ? store(context, platform, value, secrets) : { kind: "failed", failure };
}

async function store(
  context: OperatorContext,
  platform: Platform,
  answer: PlatformAnswer,
  secrets: PlatformSecrets,
): Promise<Publication> {
  const { credentials, api_key_prefix } = answer;
  if (credentials === null) {
    return { kind: "failed", failure: { kind: "unavailable", message: "it returned no credentials" } };
  }
  const { apiUrl } = context;
  const { current } = secrets;
  const isStoredKey = current?.data.api_key === credentials.api_key;
  const key = isStoredKey
    ? keyNoteOf(current)
    : {
        issued: new Date(answer.api_key_issued_at),
        version: nextVersion(platform, secrets),
        request: rotationRequest(platform),
      };
  const wanted = deliveredSecret(platform, answer, credentials, { apiUrl, ...key });
  const publication = await putSecret(context, platform, answer, secrets, wanted);
  if (publication.kind !== "published") return publication;
  const { failure } = await context.api.acknowledgeCredentials(
    context.externalIdOf(platform),
    api_key_prefix,
  );
  if (failure === undefined) return publication;
  return failure.kind === "refused" ? { kind: "raced" } : { kind: "failed", failure };
}

/** Returns a version number that neither the status nor a Secret has used, even if one of them was lost. */
function nextVersion({ status }: Platform, { current, former }: PlatformSecrets): number {
  const known = [current, former].map((secret) => (secret === undefined ? 0 : versionOf(secret)));
  return Math.max(status.credentialsVersion ?? 0, ...known) + 1;
}

/** Writes the Secret if it differs, and removes the Secret with the former name. */
async function putSecret(
  { resources }: OperatorContext,
  platform: Platform,
  answer: PlatformAnswer,
  { current, former }: PlatformSecrets,
  bare: WantedSecret,
): Promise<Publication> {
  const wanted = withOthersMarks(bare, current);
  if (!isStored(current, wanted) && !(await resources.writeSecret(wanted, current))) {
    return { kind: "not_owned" };
  }
  if (former !== undefined && isOwnSecret(former, platform)) await resources.removeSecret(former);
  return { kind: "published", answer, secret: wanted };
}

function isStored(current: Secret | undefined, wanted: WantedSecret): boolean {
  if (current === undefined) return false;
  const { version: _, ...stored } = current;
  return isDeepStrictEqual(stored, wanted);
}
