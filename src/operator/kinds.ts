import type { DeclaredSpec } from "../input/declared_fields.ts";
import type { AgentType, ExplanationValues } from "../input/platform_fields.ts";
import type { Constraint } from "../protocol/constraints/constraints.ts";

/** API group and version of every kind. */
export const API_VERSION = "deputize.io/v1alpha1";

/** Finalizer that keeps an object until its authority has been revoked or its registration released. */
export const FINALIZER = "deputize.io/revoke";

/** Reason of a `ClusterRefused`: an admission policy removes the finalizer. */
export const FINALIZER_REMOVED = "FinalizerRemoved";

/** The kinds that the operator reconciles. */
export const kinds = ["Platform", "Agent", "Delegation"] as const;
export type Kind = (typeof kinds)[number];

/** The identity of one object: kind, namespace and name. */
export type Key = { kind: Kind; namespace: string; name: string };

/** Returns a key as one string, for maps and logs. */
export function keyText({ kind, namespace, name }: Key): string {
  return `${kind}/${namespace}/${name}`;
}

/** Metadata of an object in Kubernetes' form. Times are ISO 8601. */
export type Metadata = {
  name: string;
  namespace: string;
  /** An object that is recreated under the same name has a different uid. */
  uid: string;
  /** Increases with every change of the spec. */
  generation: number;
  creationTimestamp: string;
  /** Set once a deletion was requested. The object remains while it has finalizers. */
  deletionTimestamp?: string;
  finalizers: string[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
};

/** One condition of an object, in Kubernetes' form. */
export type Condition = {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  observedGeneration: number;
  lastTransitionTime: string;
};

/** The fields that the status of every kind has. */
export type CommonStatus = {
  observedGeneration?: number;
  /** Value of the annotation `deputize.io/reconcile-at` that the operator handled last. */
  lastHandledReconcileAt?: string;
  conditions?: Condition[];
};

export type DeletionPolicy = "Retain" | "Delete";
export type Reference = { name: string };

/** The principal of a different account that a Platform accepts, for these scopes and until this time. */
export type AcceptedPrincipal = { humanID: string; scopes: string[]; acceptedUntil?: string };

export type DescribedScope = { scope: string; label: string; description: string; sensitive?: boolean };

export type PlatformSpec = {
  displayName: string;
  description?: string;
  surfaceType: string;
  defaultAllowedScopes: string[];
  adopt?: string;
  callbackUrl?: string;
  redirectURIs?: string[];
  acceptedPrincipals?: AcceptedPrincipal[];
  scopeDescriptions?: DescribedScope[];
  explanationValues?: ExplanationValues;
  credentialsSecretName?: string;
  secretTemplate?: { labels?: Record<string, string>; annotations?: Record<string, string> };
  keyRotation?: { every: string; grace?: string };
  deletionPolicy?: DeletionPolicy;
  suspend?: boolean;
};

export type PlatformStatus = CommonStatus & {
  platformID?: string;
  connectionID?: string;
  apiKeyPrefix?: string;
  credentialsSecretName?: string;
  credentialsIssuedAt?: string;
  credentialsVersion?: number;
  lastRotationRequest?: string;
  callbackUrl?: string;
  redirectURIs?: string[];
  publishState?: string;
  customers?: number;
};

export type AgentSpec = {
  platformRef: Reference;
  displayName?: string;
  agentType: AgentType;
  adopt?: string;
  custodyMode?: "custodial";
  deletionPolicy?: DeletionPolicy;
  suspend?: boolean;
};

export type AgentStatus = CommonStatus & {
  agentID?: string;
  custodyMode?: string;
  publicKeyFingerprint?: string;
  apiKeyPrefix?: string;
  credentialsSecretName?: string;
  lastRotationRequest?: string;
};

export type DelegationSpec = DeclaredSpec & {
  platformRef: Reference;
  agentRef: Reference;
  scopes: string[];
  ttl?: string;
  expiresAt?: string;
  constraints?: Constraint[];
  purpose?: string;
  revoked?: boolean;
  revokeReason?: string;
  suspend?: boolean;
};

export type DelegationStatus = CommonStatus & {
  requestID?: string;
  certID?: string;
  approvedScope?: string[];
  certStatus?: "Active" | "Revoked" | "Expired";
  issuedAt?: string;
  expiresAt?: string;
  decidedBy?: string;
  approval?: Approval;
};

/** Decision of a Kubernetes user. Only that user writes the decision, never the operator. */
export type Approval = {
  decision: "Approved" | "Denied";
  approvedScopes?: string[];
  approver: { username: string; uid?: string };
  observedGeneration: number;
  message?: string;
};

type ObjectOf<K extends Kind, Spec, Status> = {
  apiVersion: typeof API_VERSION;
  kind: K;
  metadata: Metadata;
  spec: Spec;
  status: Status;
};

export type Platform = ObjectOf<"Platform", PlatformSpec, PlatformStatus>;
export type Agent = ObjectOf<"Agent", AgentSpec, AgentStatus>;
export type Delegation = ObjectOf<"Delegation", DelegationSpec, DelegationStatus>;

/** The object type of each kind. */
export type ObjectOfKind = { Platform: Platform; Agent: Agent; Delegation: Delegation };
export type AnyObject = ObjectOfKind[Kind];

/** Returns the key of an object. */
export function keyOf(object: AnyObject): Key {
  return { kind: object.kind, namespace: object.metadata.namespace, name: object.metadata.name };
}

/** Returns the namespace and name of an object, in the form that the API expects. */
export function placeOf({ metadata: { namespace, name } }: AnyObject): { namespace: string; name: string } {
  return { namespace, name };
}

/** Returns whether both versions have the same uid, spec and deletion state. */
export function isSameVersion(left: ObjectVersion, right: ObjectVersion): boolean {
  return (
    left.uid === right.uid &&
    left.generation === right.generation &&
    (left.deletionTimestamp === undefined) === (right.deletionTimestamp === undefined)
  );
}

const RECONCILE_AT = "deputize.io/reconcile-at";
const MAX_REQUEST_LENGTH = 256;

/** Returns the annotation by which users request a reconciliation: any string, cut to 256 characters. */
export function reconcileRequest({ metadata }: AnyObject): string | undefined {
  return metadata.annotations?.[RECONCILE_AT]?.slice(0, MAX_REQUEST_LENGTH);
}

type ObjectVersion = Pick<Metadata, "uid" | "generation" | "deletionTimestamp">;

/** Freezes a value deeply and returns it. The value must consist of plain objects and arrays. */
export function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) frozen(member);
  }
  return value;
}
