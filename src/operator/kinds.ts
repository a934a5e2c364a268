import type { DeclaredSpec } from "../input/declared_fields.ts";
import type { AgentType } from "../input/platform_fields.ts";
import type { Constraint } from "../protocol/constraints/constraints.ts";

/** API group and version of every kind. */
export const API_VERSION = "deputize.io/v1alpha1";

/** Finalizer that keeps an object until what it declares has been revoked or released. */
export const FINALIZER = "deputize.io/revoke";

/** The kinds that the operator reconciles. */
export const kinds = ["Platform", "Agent", "Delegation"] as const;
export type Kind = (typeof kinds)[number];

/** Names one object. */
export type Key = { kind: Kind; namespace: string; name: string };

/** A key as one text, for maps and logs. */
export function keyText({ kind, namespace, name }: Key): string {
  return `${kind}/${namespace}/${name}`;
}

/** Metadata of an object as Kubernetes keeps it. Times are ISO 8601. */
export type Metadata = {
  name: string;
  namespace: string;
  /** Made when the object was created; the same name created again has another one. */
  uid: string;
  /** Grows with every change of the spec. */
  generation: number;
  creationTimestamp: string;
  /** Set once deletion was asked for; the object stays while it has finalizers. */
  deletionTimestamp?: string;
  finalizers: string[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
};

/** One fact about an object, in Kubernetes' form. */
export type Condition = {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message: string;
  observedGeneration: number;
  lastTransitionTime: string;
};

/** What every status has. */
export type CommonStatus = {
  observedGeneration?: number;
  /** The request to look at the object again that was carried out last. */
  lastHandledReconcileAt?: string;
  conditions?: Condition[];
};

export type DeletionPolicy = "Retain" | "Delete";
export type Reference = { name: string };

/**
 * A root identity of another account whose authority counts at a Platform, for these scopes, before this
 * moment.
 */
export type AcceptedPrincipal = { humanID: string; scopes: string[]; acceptedUntil?: string };

export type PlatformSpec = {
  displayName: string;
  description?: string;
  surfaceType: string;
  defaultAllowedScopes: string[];
  adopt?: string;
  callbackUrl?: string;
  acceptedPrincipals?: AcceptedPrincipal[];
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
};

export type DelegationSpec = DeclaredSpec & {
  platformRef: Reference;
  agentRef: Reference;
  scopes: string[];
  ttl?: string;
  expiresAt?: string;
  constraints?: Constraint[];
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

/** Decision of a Kubernetes user, written by that user and never by the operator. */
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

/** An object of each kind. */
export type ObjectOfKind = { Platform: Platform; Agent: Agent; Delegation: Delegation };
export type AnyObject = ObjectOfKind[Kind];

/** The key of an object. */
export function keyOf(object: AnyObject): Key {
  return { kind: object.kind, namespace: object.metadata.namespace, name: object.metadata.name };
}

/** Where an object is, as the API is told. */
export function placeOf({ metadata: { namespace, name } }: AnyObject): { namespace: string; name: string } {
  return { namespace, name };
}

/** Whether two are the same object, as declared and as far as its deletion goes. */
export function isSameVersion(left: ObjectVersion, right: ObjectVersion): boolean {
  return (
    left.uid === right.uid &&
    left.generation === right.generation &&
    (left.deletionTimestamp === undefined) === (right.deletionTimestamp === undefined)
  );
}

const RECONCILE_AT = "deputize.io/reconcile-at";
const MAX_REQUEST_LENGTH = 256;

/** What people ask a fresh look at an object with: any text, a time by custom, as an annotation. */
export function reconcileRequest({ metadata }: AnyObject): string | undefined {
  return metadata.annotations?.[RECONCILE_AT]?.slice(0, MAX_REQUEST_LENGTH);
}

type ObjectVersion = Pick<Metadata, "uid" | "generation" | "deletionTimestamp">;

/** The value, from now on unchangeable in all its parts. Plain objects and arrays only. */
export function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const member of Object.values(value)) frozen(member);
  }
  return value;
}
