import type { Condition, PlatformStatus } from "../kinds.ts";
import { definedOnly, type Fact, isTrue, readiness, withFacts } from "../status/conditions.ts";
import type { StatusReason } from "../status/reasons.ts";
import type { Publication } from "./credentials.ts";
import type { PlatformInput } from "./rules.ts";
import { handledRequest, holdsKey, issuedAt, secretName, versionOf } from "./secret.ts";

type Known = {
  registered: boolean;
  published?: Extract<Publication, { kind: "published" }>;
  callbackUrl?: string | undefined;
};

/** The status of a Platform: what was known, with what this visit found. */
export function platformStatus(
  { object, now, state, secrets: { current } }: PlatformInput,
  verdict: StatusReason,
  known: Known,
): PlatformStatus & { conditions: Condition[] } {
  const { generation } = object.metadata;
  const { published, registered } = known;
  const hasKey =
    published !== undefined ||
    (current !== undefined && holdsKey(current, object, state?.api_key_prefix ?? ""));
  const fact = (type: string, isSo: boolean): Fact => ({
    type,
    status: isSo ? "True" : "False",
    ...(isSo ? {} : { reason: verdict.reason }),
  });
  const facts = [...readiness(verdict), fact("Registered", registered), fact("CredentialsPublished", hasKey)];
  return definedOnly<PlatformStatus & { conditions: Condition[] }>({
    ...object.status,
    ...(published && {
      platformID: published.answer.platform_id,
      connectionID: published.answer.connection_id,
      apiKeyPrefix: published.answer.api_key_prefix,
      credentialsSecretName: secretName(object),
      credentialsIssuedAt: issuedAt(published.secret).toISOString(),
      credentialsVersion: versionOf(published.secret),
      lastRotationRequest: handledRequest(published.secret),
    }),
    ...("callbackUrl" in known ? { callbackUrl: known.callbackUrl } : {}),
    observedGeneration: generation,
    conditions: withFacts(object.status.conditions ?? [], facts, { generation, now }),
  });
}

/** The status when the API could not be asked: what was known stays, the verdict is new. */
export function unknownStatus(
  { object, now }: PlatformInput,
  verdict: StatusReason,
): PlatformStatus & { conditions: Condition[] } {
  const { generation } = object.metadata;
  const { status } = object;
  const facts = readiness(verdict);
  const missing = (type: string): Fact[] =>
    isTrue(status, type) ? [] : [{ type, status: "Unknown", reason: verdict.reason }];
  const conditions = withFacts(
    status.conditions ?? [],
    [...facts, ...missing("Registered"), ...missing("CredentialsPublished")],
    { generation, now },
  );
  return { ...status, observedGeneration: generation, conditions };
}
