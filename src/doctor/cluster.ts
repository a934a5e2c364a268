import { request } from "undici";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { readClustersFile } from "../clusters/trusted_clusters.ts";
import { StartError } from "../config.ts";
import { networkFault } from "../input/network_fault.ts";
import { type ClusterAccess, openAccess } from "../kubernetes/access.ts";
import { type ClusterClient, createClusterClient, createDispatcher } from "../kubernetes/client.ts";
import { ClusterError, isStatus } from "../kubernetes/cluster_error.ts";
import { checkPolicies } from "../kubernetes/policies.ts";
import { OWNER, SECRET_TYPE } from "../operator/reconcile/platform_secret.ts";
import { readDefinitions, type StructuralSchema } from "../operator/schema/read_crds.ts";
import {
  type Check,
  type CheckContext,
  check,
  type Finding,
  failed,
  NotChecked,
  ok,
  skipped,
} from "./check.ts";
import { apiRights, operatorRights, type Rights, textOf } from "./cluster_rights.ts";
import { judgeClusterId, judgeLeader } from "./running.ts";
import type { Settings } from "./settings.ts";

const DEADLINE_MS = 5_000;

type Cluster = { access: ClusterAccess; client: ClusterClient };
type Source = { file?: string | undefined; context?: string | undefined };

async function withCluster<T>(
  source: Source,
  now: () => Date,
  use: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const clock: Clock = { now };
  const access = await openAccess({ ...source, clock });
  const client = await createClusterClient({ access, deadlineMs: DEADLINE_MS });
  try {
    return await use({ access, client });
  } finally {
    await client.close();
  }
}

/** Returns the checks of an operator in a cluster: the API server, its rights, the kinds and its Secrets. */
export function operatorClusterChecks(): Check[] {
  const about = (
    name: string,
    judge: (cluster: Cluster, settings: Settings, home: string) => Promise<Finding>,
  ) =>
    check(name, [], async (settings, { now }: CheckContext) => {
      const source = { file: settings.KUBECONFIG, context: settings.KUBE_CONTEXT };
      try {
        return await withCluster(source, now, async (cluster) => {
          const home = settings.OPERATOR_NAMESPACE ?? cluster.access.namespace;
          if (home === undefined) throw new NotChecked("OPERATOR_NAMESPACE is not set");
          return judge(cluster, settings, home);
        });
      } catch (error) {
        if (name !== "cluster") throwIfAway(error);
        return explain(error);
      }
    });
  return [
    about("cluster", async ({ access, client }) => {
      await mayDo(client, { group: "deputize.io", resource: "platforms", verbs: [] }, "list");
      return ok(`the API server at ${new URL(access.server).host} answers and accepts the credentials`);
    }),
    about("cluster rights", ({ client }, settings, home) =>
      judgeRights(client, operatorRights(settings, home)),
    ),
    about("cluster kinds", ({ access }) => judgeKinds(access)),
    about("cluster secrets", async ({ client }, { WATCH_NAMESPACES, NAMESPACE_SELECTOR: selector }, home) => {
      const served = selector === undefined ? WATCH_NAMESPACES : await namespacesOf(client, selector);
      if (served?.length === 0) {
        return failed(
          `no namespace has the labels of NAMESPACE_SELECTOR: ${selector}`,
          "Label the namespaces in which the operator is to work, or correct operator.namespaceSelector.",
        );
      }
      const found = await Promise.all((served ?? [home]).map((each) => judgeSecrets(client, each)));
      const faulty = found.filter(({ status }) => status === "failed");
      const action = faulty[0]?.action ?? null;
      const detail = (faulty.length > 0 ? faulty : found).map((each) => each.detail).join("\n");
      return { status: faulty.length > 0 ? "failed" : "ok", detail, action };
    }),
    about("cluster id", ({ client }, { CLUSTER_ID }, home) => judgeClusterId(client, home, CLUSTER_ID)),
    about("operator", ({ client }, _, home) => judgeLeader(client, home)),
  ];
}

/** Throws `NotChecked` if the check of the API server itself reports this error already. */
function throwIfAway(error: unknown): void {
  const isAnswer = error instanceof ClusterError && isStatus(error, 403);
  if (isAnswer || !(error instanceof StartError || error instanceof ClusterError)) return;
  throw new NotChecked("the cluster does not answer");
}

/** Returns the check of the clusters whose operators the API serves: its rights, and the policies. */
export function apiClusterChecks(): Check[] {
  return [
    check("clusters", ["CLUSTERS_FILE"], async ({ CLUSTERS_FILE }, { now }) => {
      const entries = await readClustersFile(CLUSTERS_FILE);
      const found = await Promise.all(
        entries.map(async ({ id, kubeconfig: file, context, operator }) => {
          const source = { file, context };
          const finding = await withCluster(source, now, ({ client }) => judgeServed(client, operator)).catch(
            explain,
          );
          return { id, finding };
        }),
      );
      const worst = ["failed", "skipped", "ok"].find((status) =>
        found.some((each) => each.finding.status === status),
      );
      const shown = found.filter(({ finding }) => finding.status === worst);
      if (shown.length === 0) return skipped("CLUSTERS_FILE lists no cluster");
      return {
        status: worst as Finding["status"],
        detail: shown.map(({ id, finding }) => `${id}: ${finding.detail}`).join("\n"),
        action: shown.map(({ finding }) => finding.action).find((action) => action !== null) ?? null,
      };
    }),
  ];
}

async function judgeServed(client: ClusterClient, operator: string): Promise<Finding> {
  const rights = await judgeRights(client, apiRights);
  if (rights.status === "failed") return rights;
  try {
    const { fault } = await checkPolicies(client, { operator });
    if (fault === undefined) return ok("tokens can be checked, and the admission policies fit this version");
    return failed(
      fault,
      "Apply crds/policies.yaml of this version. Until then, no approval in Kubernetes counts.",
    );
  } catch (error) {
    if (!isStatus(error, 403)) throw error;
    return skipped("the API may not read the admission policies, so no approval in Kubernetes counts");
  }
}

async function judgeRights(client: ClusterClient, wanted: readonly Rights[]): Promise<Finding> {
  const all = wanted.flatMap((rights) => rights.verbs.map((verb) => ({ rights, verb })));
  const asked = await Promise.all(
    all.map(async ({ rights, verb }) => ({
      text: textOf(rights, verb),
      may: await mayDo(client, rights, verb),
    })),
  );
  const missing = asked.filter(({ may }) => !may).map(({ text }) => text);
  if (missing.length === 0) return ok(`all ${asked.length} rights are granted`);
  const shown = missing.slice(0, MOST_SHOWN);
  const more = missing.length > shown.length ? [`and ${missing.length - shown.length} more`] : [];
  return failed(
    `missing rights:\n${[...shown, ...more].join("\n")}`,
    "Grant them to this service account, as the chart's roles do (charts/deputize/templates/rbac).",
  );
}

const MOST_SHOWN = 10;
const review = z.object({ status: z.object({ allowed: z.boolean() }) });

async function mayDo(
  client: ClusterClient,
  { verbs: _, ...resource }: Rights,
  verb: string,
): Promise<boolean> {
  const resourceAttributes = { ...resource, verb };
  const body = { spec: { resourceAttributes } };
  return review.parse(await client.authorization.createSelfSubjectAccessReview({ body })).status.allowed;
}

const published = z.object({
  components: z.object({ schemas: z.record(z.string(), z.custom<StructuralSchema>()) }),
});

/** Compares the fields of the kinds that the cluster serves with those of this version. */
async function judgeKinds(access: ClusterAccess): Promise<Finding> {
  const definitions = await readDefinitions();
  const faults: string[] = [];
  for (const { apiVersion, kind, schema } of definitions) {
    const document = published.safeParse(await readPublished(access, apiVersion));
    const [group = "", version = ""] = apiVersion.split("/");
    const name = `${group.split(".").reverse().join(".")}.${version}.${kind}`;
    const served = document.success ? document.data.components.schemas[name] : undefined;
    if (served === undefined) faults.push(`${kind} is missing`);
    else {
      const missing = missingFields(schema, served, "");
      if (missing.length > 0) faults.push(`${kind} lacks ${missing.slice(0, 3).join(", ")}`);
    }
  }
  if (faults.length === 0) return ok(`${definitions.map(({ kind }) => kind).join(", ")} fit this version`);
  return failed(faults.join("\n"), "Apply crds/*.yaml of this version, see docs/upgrade.md.");
}

function missingFields(wanted: StructuralSchema, served: StructuralSchema, path: string): string[] {
  const properties = Object.entries(wanted.properties ?? {}).flatMap(([name, schema]) => {
    const other = served.properties?.[name];
    const place = path === "" ? name : `${path}.${name}`;
    return other === undefined ? [place] : missingFields(schema, other, place);
  });
  const items = wanted.items && served.items ? missingFields(wanted.items, served.items, `${path}[]`) : [];
  return [...properties, ...items];
}

/** The typed clients do not cover the published schemas, which every authenticated user may read. */
async function readPublished(access: ClusterAccess, apiVersion: string): Promise<unknown> {
  const { headers, tls } = await access.credentials();
  const dispatcher = createDispatcher(access, tls);
  try {
    const { statusCode, body } = await request(`${access.server}/openapi/v3/apis/${apiVersion}`, {
      headers: { ...headers, accept: "application/json" },
      dispatcher,
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
    const text = await body.text();
    return statusCode === 200 ? JSON.parse(text) : undefined;
  } finally {
    await dispatcher.destroy();
  }
}

const PROBE = "deputize-doctor-not-stored";
const annotated = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()).optional() }),
});

/** Lets the API server admit a Secret without storing it, and looks whether its annotation remains. */
/** Returns the names of the namespaces that a label selector matches, at most 50 of them. */
async function namespacesOf(client: ClusterClient, labelSelector: string): Promise<string[]> {
  const { items } = await client.core.listNamespace({ labelSelector, limit: 50 });
  return items.map(({ metadata }) => metadata?.name ?? "");
}

async function judgeSecrets(client: ClusterClient, namespace: string): Promise<Finding> {
  const metadata = { name: PROBE, namespace, annotations: { [OWNER]: PROBE } };
  const place = `in ${namespace}`;
  try {
    const body = { metadata, type: SECRET_TYPE };
    const admitted = annotated.parse(
      await client.core.createNamespacedSecret({ namespace, dryRun: "All", body }),
    );
    if (admitted.metadata.annotations?.[OWNER] === PROBE) {
      return ok(`a Secret ${place} would be stored unchanged`);
    }
    return failed(
      `an admission policy removes the annotation ${OWNER} from Secrets ${place}`,
      "Exempt Secrets of the type deputize.io/platform-credentials from it. Otherwise keys are replaced again and again.",
    );
  } catch (error) {
    if (isStatus(error, 404)) {
      return failed(
        `the watched namespace ${namespace} does not exist`,
        "Create it, or remove it from WATCH_NAMESPACES (operator.watchNamespaces).",
      );
    }
    if (!isStatus(error, 403)) throw error;
    return failed(
      `the API server refuses a Secret ${place}`,
      "Look for a missing right, a quota, or an admission policy that forbids it.",
    );
  }
}

function explain(error: unknown): Finding {
  if (error instanceof StartError) return failed(error.message, "Correct KUBECONFIG, or run this in a pod.");
  if (!(error instanceof ClusterError)) throw error;
  if (isStatus(error, 401)) {
    return failed(
      "the API server does not accept the credentials",
      "Renew the token or the client certificate.",
    );
  }
  if (isStatus(error, 403)) {
    return failed(`the API server forbids ${error.verb} ${error.resource}`, "Grant this right.");
  }
  const fault = networkFault(Object.assign(new Error(), { code: error.reason }));
  const what = fault?.what ?? (error.reason === "Timeout" ? "no answer in time" : error.message);
  return failed(
    `the API server does not answer: ${what}`,
    "Check the address in the kubeconfig, and network.peers.apiServer of the chart.",
  );
}
