/** A canonical scope, and whether it is sensitive. No wildcard grants a sensitive scope (wire format §6). */
type ScopeEntry = {
  readonly scope: string;
  readonly sensitive: boolean;
};

const GROUPS: Readonly<Record<string, string>> = {
  meeting: "attend speak video chat share_screen record*",
  "comms:message": "read send delete*",
  "comms:email": "read send delete*",
  "comms:calendar": "read write",
  files: "read write*",
  identity: "prove delegate*",
  presence: "represent*",
  transact: "purchase sell",
  payments: "send receive authorize*",
  contract: "read sign*",
  data: "read write* delete* export* share",
  execute: "tool code*",
  generate: "content deepfake*",
  physical: "enter exit actuate* manipulate*",
  robot: "operate move interact",
  drone: "fly* deliver capture",
  vehicle: "operate* transport charge",
  infrastructure: "monitor control* access*",
  actuate: "valve* motor* switch*",
};

const WILDCARD_GROUPS = [
  "meeting",
  "comms:message",
  "comms:email",
  "comms",
  "transact",
  "payments",
  "data",
  "execute",
  "generate",
  "physical",
  "robot",
  "drone",
  "vehicle",
  "infrastructure",
] as const;

const ENTRIES: readonly ScopeEntry[] = Object.entries(GROUPS).flatMap(([group, actions]) =>
  actions.split(" ").map((action) => ({
    scope: `${group}:${action.replace("*", "")}`,
    sensitive: action.endsWith("*"),
  })),
);

/** The 54 canonical scopes (wire format §6). */
export const CANONICAL_SCOPES: ReadonlySet<string> = new Set(ENTRIES.map((entry) => entry.scope));

/** The canonical scopes that no wildcard grants (wire format §6). */
export const SENSITIVE_SCOPES: ReadonlySet<string> = new Set(
  ENTRIES.filter((entry) => entry.sensitive).map((entry) => entry.scope),
);

/** The 14 wildcards. Each maps to the non-sensitive scopes in its group (wire format §6). */
export const WILDCARDS: ReadonlyMap<string, readonly string[]> = new Map(
  WILDCARD_GROUPS.map((group) => [
    `${group}:*`,
    ENTRIES.filter((entry) => !entry.sensitive && entry.scope.startsWith(`${group}:`)).map(
      (entry) => entry.scope,
    ),
  ]),
);
