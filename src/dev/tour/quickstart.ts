import { parseDocument } from "yaml";

/** What the operator published for an application, as its Secret holds it. */
export type PlatformCredentials = {
  api_key: string;
  api_key_prefix: string;
  connection_id: string;
  webhook_signing_secret: string;
};

type Condition = {
  type: string;
  status: string;
  reason: string;
  message: string;
  observedGeneration?: number;
};

/** The fields of an object's status that the tour reads. */
export type ObjectStatus = {
  agentID?: string;
  requestID?: string;
  certID?: string;
  approvedScope?: string[];
  conditions?: Condition[];
};

/**
 * What the operator says of an object as it is declared now: never of an earlier version, nor of one being
 * deleted.
 */
export type ObjectState = { ready: boolean; stalled: boolean; reason: string; status: ObjectStatus };

/** `tour` is the delegation of the tour's own; `delegation` is the reader's. */
export type QuickstartKind = "platform" | "agent" | "tour" | "delegation";

/**
 * The example's objects where they are declared, and what the operator says of them. `tour` is the delegation
 * of the tour's own.
 */
export type Quickstart = {
  /** The namespace of the manifests, and what the API calls the cluster, or the folder that they lie in. */
  place(): Promise<{ clusterId: string; namespace: string }>;
  /** Declares tenant, platform and agent; what is there already stays as it is. */
  declarePlatform(): Promise<void>;
  /** Declares the tour's own delegation again: one from an earlier run is withdrawn first. */
  requestTour(): Promise<void>;
  /** What the operator published last. Throws `UserError` for what is damaged. */
  credentials(): Promise<PlatformCredentials | undefined>;
  /** Throws `UserError` for what is damaged. */
  objectState(kind: QuickstartKind): Promise<ObjectState | undefined>;
  /** The operator's own words on why something is not ready. */
  explain(kind: QuickstartKind): Promise<string>;
};

/** The example's files, and the tour's own, in the order in which they are declared. */
export const quickstartFiles = {
  tenants: "tenants.yaml",
  platform: "platform.yaml",
  agent: "agent.yaml",
  delegation: "delegation.yaml",
} as const;

/** Names of the example's objects. */
export const objectNames: Readonly<Record<QuickstartKind, string>> = {
  platform: "shop",
  agent: "shop-bot",
  tour: "shop-bot-tour",
  delegation: "shop-bot",
};

/** Where the operator publishes the credentials. */
export const CREDENTIALS_NAME = "shop-credentials";

/** What is read of an object, whoever keeps it. */
export type DeclaredObject = {
  metadata?: { generation?: number; deletionTimestamp?: string };
  status?: ObjectStatus;
};

/** The state of an object; `undefined` while the operator has not judged what is declared now. */
export function stateOf(object: DeclaredObject | undefined): ObjectState | undefined {
  const generation = object?.metadata?.generation;
  if (!object?.status || generation === undefined || object.metadata?.deletionTimestamp) return undefined;
  const ready = condition(object.status, "Ready");
  if (ready?.observedGeneration !== generation) return undefined;
  return {
    ready: ready.status === "True",
    stalled: condition(object.status, "Stalled")?.status === "True" || ready.reason === "Suspended",
    reason: ready.reason,
    status: object.status,
  };
}

/** What the operator says of an object's readiness. */
export function explanationOf(object: DeclaredObject | undefined): string {
  const ready = condition(object?.status ?? {}, "Ready");
  return ready ? `Ready=${ready.status}, ${ready.reason}: ${ready.message}` : "the operator has not seen it";
}

/** The credentials of a Secret as it is kept. */
export function credentialsOf(secret: { data?: Record<string, string> } | undefined) {
  if (!secret?.data) return undefined;
  const entries = Object.entries(secret.data).map(([key, value]) => [key, fromBase64(value)]);
  return Object.fromEntries(entries) as PlatformCredentials;
}

/** The example's delegation as the tour's own. */
export function tourDelegation(example: string) {
  const manifest = parseDocument(example);
  manifest.setIn(["metadata", "name"], objectNames.tour);
  return manifest;
}

function condition({ conditions }: ObjectStatus, type: string): Condition | undefined {
  return conditions?.find((candidate) => candidate.type === type);
}

function fromBase64(text: string): string {
  return Buffer.from(text, "base64").toString("utf8");
}
