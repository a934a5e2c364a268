import { type Command, type Context, shared, textOf } from "../command.ts";
import { Failure, UsageFailure } from "../failure.ts";
import { KubectlFailure, type KubernetesObject } from "../kubectl.ts";
import { type AnyObject, type KindName, resources } from "../objects.ts";
import { table } from "../output/table.ts";
import { waitFor } from "../waiting.ts";
import { OPERATOR_NAMESPACE } from "./orphans.ts";

const FINALIZER = "deputize.io/revoke";
const FORCE = "deputize.io/force-delete";
const LEASE = "deputize-operator";
/** Who refers to others goes first. */
const ORDER: readonly KindName[] = ["delegation", "agent", "platform"];

/** `uninstall`: takes our objects out of the cluster, with or without ending what they declared. */
export const uninstall: Command = {
  summary: "Take all our objects out of the cluster",
  usage: "--revoke | --orphan",
  named: "none",
  options: {
    revoke: { help: "end what they declared: the operator revokes every delegation" },
    orphan: { help: "leave what they declared in force; the operator must be stopped before" },
    "operator-namespace": shared.operatorNamespace,
    yes: shared.yes,
    "dry-run": { help: "show what would be done, and change nothing" },
    timeout: shared.timeout,
  },
  async run(context) {
    const { kubectl, terminal, options } = context;
    const isOrphaning = options.orphan === true;
    if (isOrphaning === (options.revoke === true)) throw new UsageFailure("Say one of --revoke and --orphan");
    const objects = await kubectl.list<AnyObject>([Object.values(resources).join(","), "-A"]);
    if (objects.length === 0) {
      terminal.out("There is nothing of ours in the cluster.\n");
      return;
    }
    terminal.note(planText(context, objects, isOrphaning));
    await checkOperator(context, isOrphaning);
    if (options["dry-run"] === true) {
      terminal.out("Nothing was changed (dry run).\n");
      return;
    }
    const question = isOrphaning
      ? `Delete these ${objects.length}, and leave in force what they declared?`
      : `Delete these ${objects.length}, and revoke what they declared?`;
    if (options.yes !== true && !(await terminal.confirm(question))) throw new Failure("Nothing was deleted");
    for (const kind of ORDER) {
      const ofKind = objects.filter((object) => object.kind.toLowerCase() === kind);
      for (const object of ofKind) await remove(context, kind, object, isOrphaning);
      await gone(context, kind, ofKind.length);
    }
    terminal.out(
      isOrphaning
        ? "All are gone. What they declared is in force: its owners see and end it in the product.\n"
        : "All are gone, and what they declared has ended. Platforms and keys of the policy Retain are kept in the product.\n",
    );
  },
};

function planText({ terminal }: Context, objects: readonly AnyObject[], isOrphaning: boolean): string {
  const namespaces = [...new Set(objects.map(({ metadata }) => metadata.namespace ?? ""))].sort();
  const count = (namespace: string, kind: KindName) =>
    String(
      objects.filter(
        ({ kind: its, metadata }) => its.toLowerCase() === kind && metadata.namespace === namespace,
      ).length,
    );
  const columns = [
    { heading: "NAMESPACE", of: (namespace: string) => namespace },
    { heading: "DELEGATIONS", of: (namespace: string) => count(namespace, "delegation") },
    { heading: "AGENTS", of: (namespace: string) => count(namespace, "agent") },
    { heading: "PLATFORMS", of: (namespace: string) => count(namespace, "platform") },
  ];
  const end = isOrphaning
    ? "They go; what they declared stays in force."
    : "They go, and every delegation is revoked.";
  return `${table(namespaces, columns, terminal.width)}\n${end}\n`;
}

/** Who revokes is there; who would revoke what is to stay is not. */
async function checkOperator(context: Context, isOrphaning: boolean): Promise<void> {
  const holder = await leaseHolder(context);
  if (isOrphaning && holder !== undefined) {
    throw new Failure(
      `The operator runs (${holder}) and would revoke them: stop it first, then say this again`,
    );
  }
  if (!isOrphaning && holder === undefined) {
    throw new Failure("No operator runs, so nobody would revoke them: start it, or say --orphan");
  }
}

type Lease = KubernetesObject & {
  spec?: { holderIdentity?: string; renewTime?: string; leaseDurationSeconds?: number };
};
const LEASE_SECONDS = 15;

async function leaseHolder({ kubectl, clock, options }: Context): Promise<string | undefined> {
  const namespace = textOf(options, "operator-namespace") ?? OPERATOR_NAMESPACE;
  try {
    const lease = ["get", "leases.coordination.k8s.io", LEASE, "-n", namespace];
    const { spec = {} } = await kubectl.json<Lease>(lease);
    const { holderIdentity = "", renewTime = "", leaseDurationSeconds = LEASE_SECONDS } = spec;
    const isOver = clock.now().getTime() - Date.parse(renewTime) > 2 * leaseDurationSeconds * 1000;
    return holderIdentity === "" || isOver ? undefined : holderIdentity;
  } catch (error) {
    if (error instanceof KubectlFailure && error.isMissing) return undefined;
    throw error;
  }
}

async function remove(
  context: Context,
  kind: KindName,
  object: AnyObject,
  isOrphaning: boolean,
): Promise<void> {
  const { kubectl, terminal } = context;
  const { name, namespace = "", uid, finalizers = [] } = object.metadata;
  const place = [resources[kind], name, "-n", namespace];
  try {
    if (isOrphaning && finalizers.includes(FINALIZER)) {
      const others = finalizers.filter((finalizer) => finalizer !== FINALIZER);
      const metadata = { uid, annotations: { [FORCE]: uid }, finalizers: others };
      await kubectl.run(["patch", ...place, "--type=merge", "-p", JSON.stringify({ metadata })]);
    }
    await kubectl.run(["delete", ...place, "--wait=false"]);
    terminal.note(`${kind}/${name} in ${namespace} is deleted\n`);
  } catch (error) {
    if (!(error instanceof KubectlFailure && error.isMissing)) throw error;
  }
}

async function gone(context: Context, kind: KindName, count: number): Promise<void> {
  if (count === 0) return;
  await waitFor(context, `The deletion of ${count} ${kind}s`, async () => {
    const left = await context.kubectl.list([resources[kind], "-A"]);
    return left.length === 0 ? true : undefined;
  });
}
