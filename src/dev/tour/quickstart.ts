import { parseDocument } from "yaml";

/** Content of the Secret with an application's credentials. */
export type PlatformCredentials = {
  api_key: string;
  api_key_prefix: string;
  connection_id: string;
  platform_id: string;
  /** The platform's client secret in OAuth. */
  signing_secret: string;
  webhook_signing_secret: string;
  /** The ids that name the connection in an operation. An operator of version 0.1 omits them. */
  workspace_id?: string;
  verifier_id?: string;
};

type Condition = {
  type: string;
  status: string;
  reason: string;
  message: string;
  observedGeneration?: number;
};

/** The status fields that the tour reads. */
export type ObjectStatus = {
  agentID?: string;
  requestID?: string;
  certID?: string;
  approvedScope?: string[];
  /** The callback URL that the manifest declares. */
  callbackUrl?: string;
  conditions?: Condition[];
};

/** The operator's report about the current version of an object that is not being deleted. */
export type ObjectState = { ready: boolean; stalled: boolean; reason: string; status: ObjectStatus };

/** `tour` is the tour's own delegation; `delegation` is the reader's. */
export type QuickstartKind = "platform" | "agent" | "tour" | "delegation";

/** The example's declared objects and the operator's reports about them. */
export type Quickstart = {
  /** Returns the namespace and `clusterId`, which is the cluster's ID in the API or the folder's ID. */
  place(): Promise<{ clusterId: string; namespace: string }>;
  /** Declares tenant, platform and agent. Existing objects stay unchanged. */
  declarePlatform(): Promise<void>;
  /** Withdraws the tour's own delegation if an earlier run left one, and declares it again. */
  requestTour(): Promise<void>;
  /** Returns the credentials that the operator published last. Throws `UserError` if they are damaged. */
  credentials(): Promise<PlatformCredentials | undefined>;
  /** Returns the operator's report about an object. Throws `UserError` if the status is damaged. */
  objectState(kind: QuickstartKind): Promise<ObjectState | undefined>;
  /** Returns why an object is not ready, in the operator's words. */
  explain(kind: QuickstartKind): Promise<string>;
};

/** The example's files, in the order in which the tour declares them. */
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

/** Name of the Secret with the credentials. */
export const CREDENTIALS_NAME = "shop-credentials";

/** The fields of an object that the tour reads. */
export type DeclaredObject = {
  metadata?: { generation?: number; deletionTimestamp?: string };
  status?: ObjectStatus;
};

/** Returns an object's state, or `undefined` until the operator has reported on its current version. */
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

/** Returns the operator's message about an object's readiness. */
export function explanationOf(object: DeclaredObject | undefined): string {
  const ready = condition(object?.status ?? {}, "Ready");
  return ready ? `Ready=${ready.status}, ${ready.reason}: ${ready.message}` : "the operator has not seen it";
}

/** Decodes the credentials in a Secret. Returns undefined if the Secret has no data. */
export function credentialsOf(secret: { data?: Record<string, string> } | undefined) {
  if (!secret?.data) return undefined;
  const entries = Object.entries(secret.data).map(([key, value]) => [key, fromBase64(value)]);
  return Object.fromEntries(entries) as PlatformCredentials;
}

/** Returns the example's delegation, renamed to the tour's own delegation. */
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
