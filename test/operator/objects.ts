import type {
  Agent,
  AnyObject,
  Condition,
  Delegation,
  Metadata,
  Platform,
} from "../../src/operator/kinds.ts";
import type { DelegationState } from "../../src/operator_calls.ts";

export const NOW = new Date("2026-06-01T12:00:00.000Z");

const metadata = (name: string, changes: Partial<Metadata> = {}): Metadata => ({
  name,
  namespace: "default",
  uid: `uid-of-${name}`,
  generation: 1,
  creationTimestamp: "2026-01-01T00:00:00.000Z",
  finalizers: ["deputize.io/revoke"],
  ...changes,
});

export const truth = (type: string, changes: Partial<Condition> = {}): Condition => ({
  type,
  status: "True",
  reason: type,
  message: "",
  observedGeneration: 1,
  lastTransitionTime: "2026-01-01T00:00:00.000Z",
  ...changes,
});

type Parts<T extends AnyObject> = {
  spec?: Partial<T["spec"]>;
  status?: Partial<T["status"]>;
  metadata?: Partial<Metadata>;
};

/** Returns a registered platform, with these changes. */
export const aPlatform = ({ spec, status, metadata: changes }: Parts<Platform> = {}): Platform => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: metadata("shop", changes),
  spec: {
    displayName: "Shop",
    surfaceType: "agentic_api",
    defaultAllowedScopes: ["data:read", "payments:*"],
    ...spec,
  },
  status: {
    observedGeneration: 1,
    apiKeyPrefix: "dpz_1",
    conditions: [truth("Ready", { reason: "Active" }), truth("Registered")],
    ...status,
  },
});

/** Returns an agent with a key, with these changes. */
export const anAgent = ({ spec, status, metadata: changes }: Parts<Agent> = {}): Agent => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Agent",
  metadata: metadata("bot", changes),
  spec: { platformRef: { name: "shop" }, agentType: "api_agent", ...spec },
  status: {
    observedGeneration: 1,
    agentID: "a".repeat(32),
    publicKeyFingerprint: "sha256:0",
    conditions: [truth("Ready", { reason: "Active" }), truth("KeyReady")],
    ...status,
  },
});

/** Returns a delegation that the operator has not handled, with these changes. */
export const aDelegation = ({ spec, status, metadata: changes }: Parts<Delegation> = {}): Delegation => ({
  apiVersion: "deputize.io/v1alpha1",
  kind: "Delegation",
  metadata: metadata("loan", changes),
  spec: {
    platformRef: { name: "shop" },
    agentRef: { name: "bot" },
    scopes: ["data:read", "payments:send"],
    ...spec,
  },
  status: { ...status },
});

/** Returns the state of a pending request, with these changes. */
export const aState = (changes: Partial<DelegationState> = {}): DelegationState => ({
  request_id: "req-1",
  status: "pending",
  reason: null,
  requested_scope: ["data:read", "payments:send"],
  approved_scope: null,
  cert_id: null,
  issued_at: null,
  expires_at: null,
  decided_by: null,
  ...changes,
});

/** Returns the state of a request that was approved for an hour, with these changes. */
export const anApproval = (changes: Partial<DelegationState> = {}): DelegationState =>
  aState({
    status: "approved",
    approved_scope: ["data:read"],
    cert_id: "cert-1",
    issued_at: "2026-06-01T11:00:00.000Z",
    expires_at: "2026-06-01T13:00:00.000Z",
    decided_by: "owner@example.test",
    ...changes,
  });
