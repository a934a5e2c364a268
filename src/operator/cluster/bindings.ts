import { z } from "zod";
import { BINDINGS_NAME, type Binding, type BindingsMap, bindingsOf } from "../namespace_bindings.ts";
import type { WatchState } from "../operator_metrics.ts";
import type { EventSubject } from "./events.ts";
import { type ListedObject, type Reflector, togetherState } from "./reflector.ts";

/** Label of additional ConfigMaps that bind namespaces. The ConfigMap `deputize-tenants` needs no label. */
export const BINDINGS_LABEL = "deputize.io/tenants";

/** The faults of one ConfigMap, one sentence each. */
export type BindingFaults = { configMap: EventSubject; faults: string[] };

/** The namespace bindings of a cluster. */
export type ClusterBindings = {
  start(): Promise<void>;
  get(namespace: string): Binding | undefined;
  state(): WatchState;
  /** Returns only ConfigMaps with faults. */
  faults(): BindingFaults[];
  stop(): Promise<void>;
};

/** A ConfigMap in the local copy. */
export type BindingsObject = BindingsMap & { uid: string; namespace: string };

const data = z.object({ data: z.record(z.string(), z.string()).default({}) });

/** Returns the fields of a ConfigMap that define namespace bindings. */
export function bindingsObjectOf(object: ListedObject): BindingsObject {
  const { name, namespace, uid } = object.metadata;
  return { name, namespace, uid, ...data.parse(object) };
}

/**
 * Reads the namespace bindings in the ConfigMap `deputize-tenants` and in ConfigMaps with the label. `watch`
 * keeps a copy of the ConfigMaps that a selector matches.
 */
export function createClusterBindings(
  watch: (query: Record<string, string>, onChange: () => void) => Reflector<BindingsObject>,
  onChange: () => void,
): ClusterBindings {
  let joined: Map<string, Binding> | undefined;
  const changed = () => {
    joined = undefined;
    onChange();
  };
  const copies = [
    watch({ fieldSelector: `metadata.name=${BINDINGS_NAME}` }, changed),
    watch({ labelSelector: `${BINDINGS_LABEL}=true` }, changed),
  ];

  function configMaps(): BindingsObject[] {
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

function subjectOf({ name, namespace, uid }: BindingsObject): EventSubject {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, uid } };
}

/** Creates a function that records ConfigMaps' faults as Events. It does not repeat an unchanged fault. */
export function createFaultReporter(record: (object: EventSubject, message: string) => void): {
  report(found: readonly BindingFaults[]): void;
} {
  let reported = new Map<string, string>();
  return {
    report(found) {
      const next = new Map<string, string>();
      for (const { configMap, faults } of found) {
        const { name, uid } = configMap.metadata;
        const message = faults.join("; ");
        next.set(`${name} ${uid}`, message);
        if (reported.get(`${name} ${uid}`) !== message) record(configMap, message);
      }
      reported = next;
    },
  };
}
