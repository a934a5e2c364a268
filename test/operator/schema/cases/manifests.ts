export type Manifest = {
  apiVersion: string;
  kind: string;
  metadata: Record<string, unknown>;
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
};

/** One object to apply, after `previous` if given. `status` is written through the status subresource. */
export type SchemaCase = { name: string; object: Manifest; previous?: Manifest; accepted: boolean };

export type Changes = Record<string, unknown>;

function manifest(kind: string, spec: Changes, changes: Changes): Manifest {
  const merged = Object.entries({ ...spec, ...changes }).filter(([, value]) => value !== undefined);
  return {
    apiVersion: "deputize.io/v1alpha1",
    kind,
    metadata: { name: "example", namespace: "default" },
    spec: Object.fromEntries(merged),
  };
}

export const platform = (changes: Changes = {}): Manifest =>
  manifest(
    "Platform",
    {
      displayName: "Shop",
      surfaceType: "agentic_api",
      defaultAllowedScopes: ["data:read", "payments:*", "comms:*", "custom:orders:refund"],
    },
    changes,
  );
export const principal = (changes: Changes = {}): Changes => ({
  humanID: "0123456789abcdef0123456789abcdef",
  scopes: ["data:read", "custom:orders:refund"],
  ...changes,
});
export const principals = (count: number): Changes[] =>
  Array.from({ length: count }, (_, n) => principal({ humanID: String(n).padStart(32, "0") }));
export const agent = (changes: Changes = {}): Manifest =>
  manifest("Agent", { platformRef: { name: "shop" }, agentType: "api_agent" }, changes);
export const delegation = (changes: Changes = {}): Manifest =>
  manifest(
    "Delegation",
    { platformRef: { name: "shop" }, agentRef: { name: "bot" }, scopes: ["data:read", "payments:*"] },
    changes,
  );
export const withMetadata = (metadata: Changes, object = platform()): Manifest => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
});
export const withStatus = (status: Changes, object = delegation()): Manifest => ({ ...object, status });
export const constrained = (...constraints: Changes[]): Manifest => delegation({ constraints });
export const approval = (changes: Changes = {}): Changes => ({
  approval: {
    decision: "Approved",
    approvedScopes: ["data:read"],
    approver: { username: "jane", uid: "1" },
    observedGeneration: 1,
    ...changes,
  },
});
export const condition = (changes: Changes = {}): Changes => ({
  type: "Ready",
  status: "True",
  reason: "Active",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
  ...changes,
});

export const accepts = (name: string, object: Manifest, previous?: Manifest): SchemaCase => ({
  name: `accepts ${name}`,
  object,
  accepted: true,
  ...(previous && { previous }),
});
export const refuses = (name: string, object: Manifest, previous?: Manifest): SchemaCase => ({
  name: `refuses ${name}`,
  object,
  accepted: false,
  ...(previous && { previous }),
});

export const letters = (count: number): string => "a".repeat(count);
export const scopes = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `custom:area:s${index}`);

export const circle = { type: "geo_circle", lat: 47.4, lon: 8, radius_m: 500 };
export const box = { type: "geo_bbox", min_lat: -1, min_lon: -1.5, max_lat: 1, max_lon: 1 };
export const path = { type: "resource_path", resource_id: "git:example/widgets" };
