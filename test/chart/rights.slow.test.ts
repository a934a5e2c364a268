import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { helm } from "../support/helm.ts";
import { type ChartCluster, missingCluster, startChartCluster } from "./cluster.ts";
import { NAMESPACE, type Rendered, render } from "./render.ts";
import { mergeValues, VALUES, type Values } from "./values.ts";

const START_MS = 20 * 60_000;
const RBAC = "rbac.authorization.k8s.io";
const program = await helm("v4");
const missing = program.missing ?? (await missingCluster());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

/** The rights of a release's accounts, one line for each resource: `group/resource [names]: verbs`. */
const KINDS = ["agents", "delegations", "platforms"].map((kind) => `deputize.io/${kind}`);
const OPERATOR = [
  ...KINDS.map((kind) => `${kind}: get list patch watch`),
  ...KINDS.map((kind) => `${kind}/status: patch`),
  "/events: create",
  "/namespaces: get",
  "/secrets: create delete get list patch watch",
];
const OPERATOR_HOME = [
  "/configmaps: create get list watch",
  "/configmaps [deputize-orphans]: patch",
  "coordination.k8s.io/leases: create",
  "coordination.k8s.io/leases [deputize-operator]: get patch",
  "/events: create",
];
const POLICIES = "deputize-approval deputize-definitions deputize-objects deputize-secrets deputize-status";
const API = [
  `admissionregistration.k8s.io/validatingadmissionpolicies [${POLICIES}]: get`,
  `admissionregistration.k8s.io/validatingadmissionpolicybindings [${POLICIES}]: get`,
  "authentication.k8s.io/tokenreviews: create",
];
const CERTIFICATES = [
  "/secrets [deputize-keyvault-admin-tls deputize-keyvault-api-tls deputize-keyvault-authority deputize-keyvault-tls]: create get patch",
];
const API_WATCHED = ["deputize.io/delegations: get"];

type Rights = Record<string, Record<string, string[]>>;
const WHOLE: Rights = {
  operator: { [NAMESPACE]: [...OPERATOR_HOME, ...OPERATOR], shop: OPERATOR, other: OPERATOR },
  api: Object.fromEntries([NAMESPACE, "shop", "other"].map((name) => [name, [...API, ...API_WATCHED]])),
  worker: { [NAMESPACE]: [], shop: [] },
  migrate: { [NAMESPACE]: [], shop: [] },
  keyvault: { [NAMESPACE]: [], shop: [] },
  "keyvault-certificates": { [NAMESPACE]: CERTIFICATES, shop: [] },
  "keyvault-renewal": { [NAMESPACE]: CERTIFICATES, shop: [] },
};
const NAMED: Rights = {
  operator: { [NAMESPACE]: OPERATOR_HOME, shop: OPERATOR, desk: OPERATOR, other: [] },
  api: {
    [NAMESPACE]: API,
    shop: [...API, ...API_WATCHED],
    desk: [...API, ...API_WATCHED],
    other: API,
  },
  worker: { [NAMESPACE]: [], shop: [] },
  migrate: { [NAMESPACE]: [], shop: [] },
  keyvault: { [NAMESPACE]: [], shop: [] },
  "keyvault-certificates": { [NAMESPACE]: CERTIFICATES, shop: [] },
  "keyvault-renewal": { [NAMESPACE]: CERTIFICATES, shop: [] },
};
const CASES: [string, Values, Rights][] = [
  [
    "a trial",
    VALUES.trial ?? {},
    { ...WHOLE, postgres: { [NAMESPACE]: [] }, "trial-migrate": { [NAMESPACE]: [] } },
  ],
  ["all namespaces", VALUES["all namespaces"] ?? {}, WHOLE],
  [
    "namespaces by label",
    VALUES["namespaces by label"] ?? {},
    {
      ...WHOLE,
      operator: {
        shop: OPERATOR.map((line) => line.replace("/namespaces: get", "/namespaces: get list watch")),
      },
    },
  ],
  ["named namespaces", VALUES.production ?? {}, NAMED],
  [
    "named namespaces without policies",
    VALUES["without admission policies"] ?? {},
    {
      ...NAMED,
      api: {
        [NAMESPACE]: ["authentication.k8s.io/tokenreviews: create"],
        shop: ["authentication.k8s.io/tokenreviews: create", ...API_WATCHED],
      },
    },
  ],
  [
    "an end to ended delegations",
    mergeValues(VALUES.production ?? {}, { operator: { endedTtl: "720h" } }),
    {
      operator: {
        shop: OPERATOR.map((line) =>
          line.startsWith("deputize.io/delegations:") ? line.replace("get", "delete get") : line,
        ),
      },
    },
  ],
  [
    "no operator",
    VALUES["without operator"] ?? {},
    { api: { [NAMESPACE]: [] }, worker: { [NAMESPACE]: [] } },
  ],
];

/** The rights of roles that are bound in a namespace: verb, resource, viewer, editor, approver. */
const CAN_I: [string, string, boolean, boolean, boolean][] = [
  ...["platforms", "agents", "delegations"].flatMap((kind): [string, string, boolean, boolean, boolean][] => [
    ...["get", "list", "watch"].map((verb): [string, string, boolean, boolean, boolean] => [
      verb,
      kind,
      true,
      true,
      true,
    ]),
    ...["create", "update", "patch", "delete"].map((verb): [string, string, boolean, boolean, boolean] => [
      verb,
      kind,
      false,
      true,
      false,
    ]),
    ["deletecollection", kind, false, false, false],
    ["force-delete", kind, false, false, false],
  ]),
  ["approve", "platforms", false, false, true],
  ["get", "delegations/status", true, true, true],
  ["patch", "delegations/status", false, false, true],
  ["update", "delegations/status", false, false, true],
  ["patch", "platforms/status", false, false, false],
  ["patch", "agents/status", false, false, false],
];

describe.skipIf(missing !== undefined)("the chart's roles", () => {
  let cluster: ChartCluster;
  beforeAll(async () => {
    cluster = await startChartCluster();
    await cluster.call("POST", "/api/v1/namespaces", { metadata: { name: "other" } });
  }, START_MS);
  afterAll(() => cluster?.stop());

  async function withRoles<T>(values: Values, work: (objects: Rendered[]) => Promise<T>): Promise<T> {
    const objects = await render(program.path ?? "", values);
    const roles = objects.filter(({ apiVersion }) => apiVersion.startsWith(RBAC));
    for (const role of roles) await cluster.create(role);
    try {
      return await work(objects);
    } finally {
      for (const role of roles) await cluster.remove(role);
    }
  }

  async function rightsOf(user: string, namespace: string): Promise<string[]> {
    const { body } = await cluster.as({ name: user })(
      "POST",
      "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
      { spec: { namespace } },
    );
    const { incomplete, resourceRules } = body.status as { incomplete: boolean; resourceRules: Rule[] };
    expect(incomplete).toBe(false);
    return linesOf(resourceRules);
  }

  test.each(CASES)("give each account exactly the expected rights, with %s", async (_, values, wanted) => {
    const found = await withRoles(values, async () => {
      const rights: Rights = {};
      for (const [component, namespaces] of Object.entries(wanted)) {
        for (const namespace of Object.keys(namespaces)) {
          const everybody = await rightsOf("system:serviceaccount:other:any", namespace);
          const all = await rightsOf(`system:serviceaccount:${NAMESPACE}:deputize-${component}`, namespace);
          const own = all.filter((line) => !everybody.includes(line));
          rights[component] = { ...rights[component], [namespace]: own };
        }
      }
      return rights;
    });
    const sorted = (rights: Rights) =>
      Object.fromEntries(
        Object.entries(rights).map(([component, namespaces]) => [
          component,
          Object.fromEntries(Object.entries(namespaces).map(([name, lines]) => [name, merged(lines)])),
        ]),
      );
    expect(sorted(found)).toEqual(sorted(wanted));
  });

  test("give viewers, editors and approvers exactly the expected rights", async () => {
    const table = await withRoles(VALUES.production ?? {}, async () => {
      const people = ["viewer", "editor", "approver"];
      for (const role of people) await cluster.create(bindingOf(role));
      const rows: (typeof CAN_I)[number][] = [];
      for (const [verb, resource] of CAN_I) {
        const [viewer, editor, approver] = await Promise.all(people.map((who) => canI(who, verb, resource)));
        rows.push([verb, resource, viewer === true, editor === true, approver === true]);
      }
      for (const role of people) await cluster.remove(bindingOf(role));
      return rows;
    });
    expect(table).toEqual(CAN_I);
  });

  async function canI(who: string, verb: string, path: string): Promise<boolean> {
    const [resource, subresource = ""] = path.split("/");
    const resourceAttributes = { namespace: "shop", group: "deputize.io", verb, resource, subresource };
    const { body } = await cluster.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
      spec: { user: `${who}@example.test`, resourceAttributes },
    });
    return (body.status as { allowed: boolean }).allowed;
  }

  test("extend Kubernetes' roles view, edit and admin, but never by the right to approve", async () => {
    const labels = async (values: Values) => {
      const objects = await render(program.path ?? "", values);
      const roles = objects.filter(
        ({ kind, metadata }) => kind === "ClusterRole" && /r$/.test(metadata.name),
      );
      return Object.fromEntries(
        roles
          .filter(({ metadata }) =>
            ["deputize-editor", "deputize-viewer", "deputize-approver"].includes(metadata.name),
          )
          .map(({ metadata }) => [
            metadata.name,
            Object.keys(metadata.labels ?? {}).filter((label) => label.startsWith(RBAC)),
          ]),
      );
    };
    expect(await labels(VALUES.production ?? {})).toEqual({
      "deputize-viewer": [`${RBAC}/aggregate-to-view`],
      "deputize-editor": [`${RBAC}/aggregate-to-edit`, `${RBAC}/aggregate-to-admin`],
      "deputize-approver": [],
    });
    const apart = mergeValues(VALUES.production ?? {}, { rbac: { aggregate: false } });
    expect(Object.values(await labels(apart))).toEqual([[], [], []]);
    expect(await labels(VALUES["without roles for people"] ?? {})).toEqual({});
  });
});

type Rule = { verbs: string[]; apiGroups: string[]; resources: string[]; resourceNames?: string[] };

function linesOf(rules: readonly Rule[]): string[] {
  return rules.flatMap(({ verbs, apiGroups, resources, resourceNames = [] }) => {
    const names = resourceNames.length === 0 ? "" : ` [${resourceNames.toSorted().join(" ")}]`;
    return apiGroups.flatMap((group) =>
      resources.map((resource) => `${group}/${resource}${names}: ${verbs.toSorted().join(" ")}`),
    );
  });
}

function merged(lines: readonly string[]): string[] {
  const verbs = new Map<string, Set<string>>();
  for (const line of lines) {
    const [resource = "", granted = ""] = line.split(": ");
    verbs.set(resource, new Set([...(verbs.get(resource) ?? []), ...granted.split(" ")]));
  }
  return [...verbs].map(([resource, granted]) => `${resource}: ${[...granted].sort().join(" ")}`).sort();
}

function bindingOf(role: string): Rendered {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: "RoleBinding",
    metadata: { name: role, namespace: "shop" },
    roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: `deputize-${role}` },
    subjects: [{ apiGroup: RBAC, kind: "User", name: `${role}@example.test` }],
  };
}
