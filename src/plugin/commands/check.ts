import { type Command, type Context, operatorNamespaceOf, shared } from "../command.ts";
import { Failure, KubectlFailure, type KubernetesObject, whoAmI } from "../kubectl.ts";
import { type AnyObject, conditionOf, type Delegation, reasonOf, resources } from "../objects.ts";
import { visible, wrapped } from "../text.ts";
import { readClusterId } from "./cluster_id.ts";

/** One row of the result, as `deputize doctor` prints it. `skipped` means that nothing was decided. */
type Row = { name: string; status: "ok" | "failed" | "skipped"; detail: string; action: string | null };

type Workload = KubernetesObject & { status?: { readyReplicas?: number } };

const PARTS = ["api", "worker", "operator", "keyvault"];
/** The roles whose pods run `deputize doctor`. */
const ROLES = ["api", "worker", "operator"];
const COMPONENT = "app.kubernetes.io/component";

/**
 * The command `check`: reports whether the installation works, as far as the user may look into its
 * namespace, and whether the user's namespace and decisions count. Fails if a check failed.
 */
export const check: Command = {
  summary: "Check the installation, your namespace and your link",
  usage: "",
  named: "none",
  options: { "operator-namespace": shared.operatorNamespace, output: shared.output },
  async run(context) {
    const { terminal, options } = context;
    const found = await Promise.all([installation(context), clusterRow(context), personal(context)]);
    const rows = found.flat();
    const failed = rows.filter(({ status }) => status === "failed").length;
    if (options.output === "json") {
      terminal.out(`${JSON.stringify({ checks: rows, failed }, undefined, 2)}\n`);
    } else {
      for (const row of rows) terminal.out(textOf(row, terminal.width));
    }
    if (failed > 0) throw new Failure(`${failed} of ${rows.length} checks failed`);
  },
};

const SHOWN = { ok: "ok", failed: "FAILED", skipped: "not checked" };

function textOf({ name, status, detail, action }: Row, width: number): string {
  const lines = [...detail.split("\n"), ...(action === null ? [] : [`→ ${action}`])];
  const first = `${visible(name)}: ${SHOWN[status]}\n`;
  const inner = lines.map((line) => wrapped(visible(line), width - 2).replaceAll(/^/gm, "  "));
  return `${first}${inner.join("\n")}\n`;
}

const ok = (name: string, detail: string): Row => ({ name, status: "ok", detail, action: null });
const failed = (name: string, detail: string, action: string): Row => ({
  ...{ name, status: "failed", detail, action },
});
const skipped = (name: string, detail: string): Row => ({ name, status: "skipped", detail, action: null });

/** Returns a row for each part of the release, and the rows of `deputize doctor` in the parts that run. */
async function installation(context: Context): Promise<Row[]> {
  const namespace = operatorNamespaceOf(context.options);
  const select = ["-l", "app.kubernetes.io/part-of=deputize", "-n", namespace];
  let workloads: Workload[];
  try {
    workloads = await context.kubectl.list<Workload>(["deployments.apps,statefulsets.apps", ...select]);
  } catch (error) {
    if (!(error instanceof KubectlFailure && error.isForbidden)) throw error;
    return [skipped("installation", `you may not look into ${namespace}; an administrator may`)];
  }
  const rows = await Promise.all(
    PARTS.map(async (part) => {
      const workload = workloads.find(({ metadata }) => metadata.labels?.[COMPONENT] === part);
      const row = partRow(part, workload, namespace);
      if (workload === undefined || row.status !== "ok" || !ROLES.includes(part)) return [row];
      return [row, ...(await doctorRows(context, part, workload, namespace))];
    }),
  );
  return rows.flat();
}

function partRow(part: string, workload: Workload | undefined, namespace: string): Row {
  if (workload === undefined) {
    return failed(part, `${namespace} has no ${part}`, "Install the chart, or pass --operator-namespace.");
  }
  const ready = workload.status?.readyReplicas ?? 0;
  if (ready > 0) return ok(part, `${ready} ready`);
  const why =
    part === "keyvault" ? "no pod is ready: the key vault is sealed or does not run" : "no pod is ready";
  const what = `${workload.kind.toLowerCase()}/${workload.metadata.name}`;
  return failed(part, why, `Look at kubectl describe -n ${namespace} ${what}, and at its log.`);
}

/** Runs `deputize doctor` in a pod. Its exit status is 1 if a check failed, after it printed all rows. */
async function doctorRows(
  { kubectl }: Context,
  role: string,
  { metadata }: Workload,
  namespace: string,
): Promise<Row[]> {
  const name = `doctor of ${role}`;
  const target = ["exec", "-n", namespace, `deployment/${metadata.name}`, "-c", role];
  const args = [...target, "--", "deputize", "doctor", role, "--json", "--egress", "none"];
  const out = await kubectl.run(args).catch((error: unknown) => {
    if (error instanceof KubectlFailure) return error;
    throw error;
  });
  const printed = typeof out === "string" ? out : out.out;
  try {
    const { checks } = JSON.parse(printed) as { checks: Row[] };
    return checks.map((row) => ({ ...row, name: `${role}: ${row.name}` }));
  } catch {
    if (typeof out !== "string" && out.isForbidden) {
      return [skipped(name, "you may not run commands in pods")];
    }
    const why = typeof out === "string" ? "it printed no result" : out.message;
    return [
      failed(
        name,
        why,
        `Run it: kubectl exec -n ${namespace} deployment/${metadata.name} -- deputize doctor`,
      ),
    ];
  }
}

async function clusterRow(context: Context): Promise<Row[]> {
  const { id, place, fault } = await readClusterId(context);
  if (id !== undefined) return [ok("cluster id", `the service knows this cluster as ${id}`)];
  if (fault === "forbidden") return [skipped("cluster id", `you may not read configmap ${place}`)];
  const action = "The operator writes it when the API has accepted it: look into the operator's log.";
  return [failed("cluster id", `there is no configmap ${place}`, action)];
}

/** Returns what the objects in the user's namespace show about the namespace and the user. */
async function personal({ kubectl }: Context): Promise<Row[]> {
  const { username } = await whoAmI(kubectl);
  try {
    const objects = await kubectl.list<AnyObject>([Object.values(resources).join(",")]);
    return [namespaceRow(objects), linkRow(objects, username)];
  } catch (error) {
    if (!(error instanceof KubectlFailure && error.isForbidden)) throw error;
    return [skipped("your namespace", "you may not read Deputize objects in it")];
  }
}

/** Reasons of Platforms that the service has registered, so the account accepts the namespace. */
const REGISTERED = new Set(["Active", "Suspended"]);

function namespaceRow(objects: readonly AnyObject[]): Row {
  const name = "your namespace";
  const shown = (object: AnyObject) => `${object.kind} ${object.metadata.name}`;
  const unseen = objects.find((object) => conditionOf(object, "Ready") === undefined);
  if (unseen !== undefined) {
    const action =
      "Ask an administrator whether operator.watchNamespaces contains it, and whether the operator runs.";
    return failed(name, `the operator has not seen ${shown(unseen)}`, action);
  }
  const unserved = objects.find((object) => reasonOf(object) === "NamespaceNotSelected");
  if (unserved !== undefined) {
    const why = conditionOf(unserved, "Ready")?.message ?? "NamespaceNotSelected";
    return failed(name, `not served by the operator: ${why}`, "See NAMESPACE_SELECTOR in docs/operator.md.");
  }
  const unbound = objects.find((object) => reasonOf(object) === "NamespaceNotBound");
  if (unbound !== undefined) {
    const why = conditionOf(unbound, "Ready")?.message ?? "NamespaceNotBound";
    return failed(
      name,
      `not bound to an account: ${why}`,
      "See namespaces and accounts in docs/operator.md.",
    );
  }
  const bound = objects.find((object) => object.kind === "Platform" && REGISTERED.has(reasonOf(object)));
  if (bound !== undefined) return ok(name, `bound to an account: ${shown(bound)} is ${reasonOf(bound)}`);
  return skipped(name, "no object here shows whether it is bound to an account: it has no working Platform");
}

function linkRow(objects: readonly AnyObject[], username: string): Row {
  const name = "your decisions";
  const isMine = (object: AnyObject): object is Delegation =>
    object.kind === "Delegation" && (object as Delegation).status?.approval?.approver.username === username;
  const mine = objects.filter(isMine);
  const unlinked = mine.find((each) => reasonOf(each) === "ApproverNotLinked");
  if (unlinked !== undefined) {
    const detail = `${username} is not linked: ${conditionOf(unlinked, "Ready")?.message ?? "ApproverNotLinked"}`;
    return failed(name, detail, "kubectl deputize link shows what an owner of the account has to do.");
  }
  const counted = mine.find(({ status }) => status?.decidedBy === username);
  // An owner may have ended the link since, and only the service knows the links.
  const known = counted && `${username} was linked when Delegation ${counted.metadata.name} was decided. `;
  return skipped(name, `${known ?? ""}Not known here: whether ${username} is linked to an account now`);
}
