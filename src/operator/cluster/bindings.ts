import { z } from "zod";
import type { WatchState } from "../operator_metrics.ts";
import { type Binding, bindingsOf, TENANTS_NAME, type TenantsMap } from "../tenants.ts";
import type { EventSubject } from "./events.ts";
import { type ListedObject, type Reflector, togetherState } from "./reflector.ts";

/** Marks ConfigMaps that bind namespaces besides the one that its name is enough for. */
export const TENANTS_LABEL = "deputize.io/tenants";

/** What is wrong in a ConfigMap, a sentence each. */
export type BindingFaults = { configMap: EventSubject; faults: string[] };

/** The bindings of namespaces in a cluster. */
export type ClusterBindings = {
  start(): Promise<void>;
  get(namespace: string): Binding | undefined;
  /** How the copy of the ConfigMaps is kept. */
  state(): WatchState;
  /** Of each ConfigMap in which something is wrong. */
  faults(): BindingFaults[];
  stop(): Promise<void>;
};

/** A ConfigMap as it is kept. */
export type TenantsObject = TenantsMap & { uid: string; namespace: string };

const data = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** Takes from a ConfigMap what bindings are made of. */
export function tenantsObjectOf(object: ListedObject): TenantsObject {
  const { name, namespace, uid } = object.metadata;
  return { name, namespace, uid, ...data.parse(object) };
}

/**
 * Joins the ConfigMaps of the operator's namespace that bind others: the one of the known name, and those
 * with the label. `watch` copies what a selector selects, and calls when that has changed.
 */
export function createClusterBindings(
  watch: (query: Record<string, string>, onChange: () => void) => Reflector<TenantsObject>,
  onChange: () => void,
): ClusterBindings {
  let joined: Map<string, Binding> | undefined;
  const changed = () => {
    joined = undefined;
    onChange();
  };
  const copies = [
    watch({ fieldSelector: `metadata.name=${TENANTS_NAME}` }, changed),
    watch({ labelSelector: `${TENANTS_LABEL}=true` }, changed),
  ];

  function configMaps(): TenantsObject[] {
    const all = copies.flatMap((copy) => copy.values());
    const byName = new Map(all.map((configMap) => [configMap.name, configMap]));
    return [...byName.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  function bindings(): Map<string, Binding> {
    joined ??= bindingsOf(configMaps());
    return joined;
  }

  return {
    async start() {
      await Promise.all(copies.map((copy) => copy.start()));
    },
    get: (namespace) => bindings().get(namespace),
    state: () => togetherState(copies.map((copy) => copy.state())),
    faults: () =>
      configMaps().flatMap((configMap) => {
        const faults = Object.keys(configMap.data).flatMap((namespace) => {
          const fault = bindings().get(namespace)?.fault;
          return fault === undefined ? [] : [`${namespace}: ${fault}`];
        });
        return faults.length === 0 ? [] : [{ configMap: subjectOf(configMap), faults }];
      }),
    async stop() {
      await Promise.all(copies.map((copy) => copy.stop()));
    },
  };
}

function subjectOf({ name, namespace, uid }: TenantsObject): EventSubject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, uid } };
}

/** Tells the faults of ConfigMaps as Events there, each once as long as it stays as it is. */
export function createFaultTeller(record: (object: EventSubject, message: string) => void): {
  tell(found: readonly BindingFaults[]): void;
} {
  let told = new Map<string, string>();
  return {
    tell(found) {
      const next = new Map<string, string>();
      for (const { configMap, faults } of found) {
        const { name, uid } = configMap.metadata;
        const message = faults.join("; ");
        next.set(`${name} ${uid}`, message);
        if (told.get(`${name} ${uid}`) !== message) record(configMap, message);
      }
      told = next;
    },
  };
}
