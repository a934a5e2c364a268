import { randomBytes } from "node:crypto";
import { bindingsOf, TENANTS_NAME } from "../../../operator/tenants.ts";
import type { Kubectl, KubernetesObject } from "../../../plugin/kubectl.ts";
import { UserError } from "../../user_error.ts";
import { apply, type Manifest, TOUR_LABELS, tourObjects } from "./objects.ts";
import { RECEIVER } from "./receiver_pod.ts";
import type { Release } from "./release.ts";
import type { Undo } from "./undo.ts";

/** Where the tour's objects go: a namespace of its own, or one that was there before and is kept. */
export type Place = { namespace: string; isKept: boolean };

const TOUR = "deputize-tour";
const TENANTS_LABEL = "deputize.io/tenants";
const CEILING = ["data:*", "payments:*", "custom:orders:refund"];

/**
 * Chooses the namespace. Throws `UserError` where the operator does not look at it, or where objects are in
 * the way.
 */
export async function choosePlace(
  kubectl: Kubectl,
  inside: (namespace: string) => Kubectl,
  { watched, name }: Release,
  wanted: string | undefined,
): Promise<Place> {
  if (wanted === undefined) {
    const namespace = `${TOUR}-${randomBytes(4).toString("hex")}`;
    if (watched === undefined) return { namespace, isKept: false };
    throw new UserError(
      `The operator of release ${name} looks at the namespaces ${watched.join(", ")} only, not at a new one`,
      `Name one of them: --namespace ${watched[0]}`,
    );
  }
  if (watched !== undefined && !watched.includes(wanted)) {
    throw new UserError(
      `The operator of release ${name} does not look at namespace ${wanted}`,
      `Name one that it looks at: ${watched.join(", ")}`,
    );
  }
  if ((await kubectl.find("namespaces", wanted)) === undefined) {
    throw new UserError(
      `There is no namespace ${wanted}`,
      "Create it, or leave --namespace out for one of the tour's own",
    );
  }
  const names = [...tourObjects, ...receiverObjects];
  const others = await inside(wanted).run(["get", ...names, "--ignore-not-found", "--output=name"]);
  const [other = ""] = others.split("\n");
  if (other === "") return { namespace: wanted, isKept: true };
  throw new UserError(
    `Namespace ${wanted} has ${other} already, and the tour makes one`,
    "Name another namespace",
  );
}

/** What the tour makes for its receiver, as kubectl names it. */
export const receiverObjects = ["pods", "configmaps", "services", "networkpolicies"].map(
  (kind) => `${kind}/${RECEIVER}`,
);

/** Makes the namespace, in which restricted Pod Security is enforced. */
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
 * Binds a namespace to an account in a ConfigMap of the tour's own, where it is not bound to it already.
 * Throws `UserError` where it is bound to another.
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
      `Say --email ${account}, or name another namespace`,
    );
  }
  const name = place.isKept ? `${TOUR}-${namespace}` : namespace;
  const labels = { ...TOUR_LABELS, [TENANTS_LABEL]: "true" };
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
    ({ metadata: { name, labels } }) => name === TENANTS_NAME || labels?.[TENANTS_LABEL] === "true",
  );
  const binding = bindingsOf(maps.map(({ metadata: { name }, data = {} }) => ({ name, data }))).get(
    namespace,
  );
  if (binding?.fault !== undefined) {
    throw new UserError(
      `The binding of namespace ${namespace} in ${binding.source} is faulty: ${binding.fault}`,
    );
  }
  return binding?.tenant.accountEmail;
}
