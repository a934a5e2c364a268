import { randomBytes } from "node:crypto";
import { BINDINGS_NAME, bindingsOf } from "../../../operator/namespace_bindings.ts";
import type { Kubectl, KubernetesObject } from "../../../plugin/kubectl.ts";
import { UserError } from "../../user_error.ts";
import { apply, type Manifest, TOUR_LABELS, tourObjects } from "./objects.ts";
import { RECEIVER } from "./receiver_pod.ts";
import type { Release } from "./release.ts";
import type { Undo } from "./undo.ts";

/** The tour's namespace. If `isKept` is true, it existed before the tour and must remain. */
export type Place = { namespace: string; isKept: boolean };

const TOUR = "deputize-tour";
const BINDINGS_LABEL = "deputize.io/tenants";
const CEILING = ["data:*", "payments:*", "custom:orders:refund"];

/**
 * Chooses a namespace. Throws `UserError` if the operator does not watch it or if it has the tour's objects.
 */
export async function choosePlace(
  kubectl: Kubectl,
  inside: (namespace: string) => Kubectl,
  { watched, selector, name }: Release,
  wanted: string | undefined,
): Promise<Place> {
  if (wanted === undefined) {
    const namespace = `${TOUR}-${randomBytes(4).toString("hex")}`;
    if (watched === undefined && selector === undefined) return { namespace, isKept: false };
    if (watched === undefined) {
      throw new UserError(
        `The operator of release ${name} works only in namespaces with certain labels, and not in a new one: ${selector}`,
        "Name a namespace with these labels: --namespace <name>",
      );
    }
    throw new UserError(
      `The operator of release ${name} watches only these namespaces, and not a new one: ${watched.join(", ")}`,
      `Name one of these namespaces: --namespace ${watched[0]}`,
    );
  }
  if (watched !== undefined && !watched.includes(wanted)) {
    throw new UserError(
      `The operator of release ${name} does not watch namespace ${wanted}`,
      `Name a namespace that it watches: ${watched.join(", ")}`,
    );
  }
  if ((await kubectl.find("namespaces", wanted)) === undefined) {
    throw new UserError(
      `There is no namespace ${wanted}`,
      "Create it, or omit --namespace to let the tour create one",
    );
  }
  const names = [...tourObjects, ...receiverObjects];
  const others = await inside(wanted).run(["get", ...names, "--ignore-not-found", "--output=name"]);
  const [other = ""] = others.split("\n");
  if (other === "") return { namespace: wanted, isKept: true };
  throw new UserError(
    `Namespace ${wanted} already contains ${other}, which the tour would create`,
    "Name another namespace",
  );
}

/** Objects that the tour creates for its receiver, by their kubectl names. */
export const receiverObjects = ["pods", "configmaps", "services", "networkpolicies"].map(
  (kind) => `${kind}/${RECEIVER}`,
);

/** Creates the namespace with the restricted Pod Security profile enforced. */
export async function makeNamespace(
  kubectl: Kubectl,
  undo: Undo,
  name: string,
  timeoutMs: number,
): Promise<void> {
  const removal = ["delete", `namespace/${name}`, "--ignore-not-found"];
  undo.add({
    what: `namespace ${name}`,
    remove: async () => void (await kubectl.run([...removal, `--timeout=${timeoutMs}ms`])),
    byHand: `kubectl ${removal.join(" ")}`,
  });
  const levels = ["enforce", "audit", "warn"].map((mode) => [
    `pod-security.kubernetes.io/${mode}`,
    "restricted",
  ]);
  const labels = { ...TOUR_LABELS, ...Object.fromEntries(levels) };
  await apply(kubectl, [{ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }]);
}

/**
 * Returns a function that binds a namespace to an account in a separate ConfigMap, unless it is already bound
 * to that account. `undo` then gets the removal of the binding. The function throws `UserError` if the
 * namespace is bound to another account.
 */
export async function bindNamespace(
  kubectl: Kubectl,
  undo: Undo,
  { place, email, operatorNamespace }: { place: Place; email: string; operatorNamespace: string },
): Promise<() => Promise<void>> {
  const { namespace } = place;
  const account = place.isKept ? await boundTo(kubectl, operatorNamespace, namespace) : undefined;
  if (account !== undefined) {
    if (account.toLowerCase() === email.toLowerCase()) return async () => undefined;
    throw new UserError(
      `Namespace ${namespace} is bound to ${account}, not to ${email}`,
      `Use --email ${account}, or name another namespace`,
    );
  }
  const name = place.isKept ? `${TOUR}-${namespace}` : namespace;
  const labels = { ...TOUR_LABELS, [BINDINGS_LABEL]: "true" };
  const binding: Manifest = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: operatorNamespace, labels },
    data: { [namespace]: JSON.stringify({ accountEmail: email, ceiling: CEILING }) },
  };
  const removal = ["delete", `configmap/${name}`, `--namespace=${operatorNamespace}`, "--ignore-not-found"];
  undo.add({
    remove: async () => void (await kubectl.run(removal)),
    byHand: `kubectl ${removal.join(" ")}`,
  });
  return () => apply(kubectl, [binding]);
}

type ConfigMap = KubernetesObject & { data?: Record<string, string> };

async function boundTo(
  kubectl: Kubectl,
  operatorNamespace: string,
  namespace: string,
): Promise<string | undefined> {
  const all = await kubectl.list<ConfigMap>(["configmaps", `--namespace=${operatorNamespace}`]);
  const maps = all.filter(
    ({ metadata: { name, labels } }) => name === BINDINGS_NAME || labels?.[BINDINGS_LABEL] === "true",
  );
  const binding = bindingsOf(maps.map(({ metadata: { name }, data = {} }) => ({ name, data }))).get(
    namespace,
  );
  if (binding?.fault !== undefined) {
    throw new UserError(
      `The binding of namespace ${namespace} in ${binding.source} is faulty: ${binding.fault}`,
    );
  }
  return binding?.account.accountEmail;
}
