import { Failure, type Kubectl, type KubernetesObject } from "./kubectl.ts";

/** The full resource names of Deputize's kinds. */
export const resources = {
  platform: "platforms.deputize.io",
  agent: "agents.deputize.io",
  delegation: "delegations.deputize.io",
} as const;
export type KindName = keyof typeof resources;

export type Condition = { type: string; status: string; reason: string; message: string };

type Declared<Spec, Status> = KubernetesObject & {
  spec: Spec;
  status?: Status & { observedGeneration?: number; conditions?: Condition[] };
};

export type Platform = Declared<
  { displayName: string; defaultAllowedScopes: string[] },
  { credentialsSecretName?: string; credentialsVersion?: number; lastRotationRequest?: string }
>;

export type Agent = Declared<{ platformRef: { name: string } }, { agentID?: string }>;

export type Approval = {
  decision: "Approved" | "Denied";
  approvedScopes?: string[];
  approver: { username: string };
  message?: string;
};

export type Delegation = Declared<
  {
    platformRef: { name: string };
    agentRef: { name: string };
    scopes: string[];
    ttl?: string;
    expiresAt?: string;
    constraints?: Record<string, unknown>[];
    purpose?: string;
    requestedBy?: string;
    revoked?: boolean;
  },
  {
    requestID?: string;
    certID?: string;
    approvedScope?: string[];
    certStatus?: string;
    expiresAt?: string;
    decidedBy?: string;
    approval?: Approval;
  }
>;

export type AnyObject = Platform | Agent | Delegation;

/** Returns the object with this name. Throws `Failure` if it does not exist. */
export async function objectOf<T extends AnyObject>(
  kubectl: Kubectl,
  kind: KindName,
  name: string,
): Promise<T> {
  const object = await kubectl.find<T>(resources[kind], name);
  if (object === undefined) throw new Failure(`There is no ${kind} ${name} in the namespace`);
  return object;
}

/** Returns the condition of this type; `undefined` if there is none. */
export function conditionOf({ status }: AnyObject, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

/** Returns the reason of the condition Ready, or `Terminating` while the object is being deleted. */
export function reasonOf(object: AnyObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return conditionOf(object, "Ready")?.reason ?? "Unknown";
}
