import type { Clock } from "../../clock.ts";
import type { ClusterAccess } from "../../kubernetes/access.ts";
import { type ClusterAnswer, createClusterClient } from "../../kubernetes/client.ts";
import { pause } from "../../kubernetes/pause.ts";
import type { Logger } from "../../log.ts";
import type { AnyObject, Kind, ObjectOfKind } from "../kinds.ts";
import type { WatchState } from "../operator_metrics.ts";
import type { Change, Resources } from "../resources.ts";
import { type BindingFaults, bindingsObjectOf, createClusterBindings } from "./bindings.ts";
import { readNamespaceUid } from "./cluster_identity.ts";
import { configMapCollection, kindCollection, namespaceCollection, secretCollection } from "./collections.ts";
import { createClusterEvents } from "./events.ts";
import { createClusterObjects, objectOf } from "./objects.ts";
import { createReflector, listedObject, type Reflector, togetherState } from "./reflector.ts";
import { createClusterSecrets } from "./secrets.ts";

type Options = {
  access: ClusterAccess;
  /** The operator's namespace, which contains the namespace bindings. */
  namespace: string;
  /** The namespaces to read objects and Secrets from. If absent, all namespaces. */
  watched?: readonly string[] | undefined;
  /** The label selector of the namespaces that the operator serves. If absent, it serves all. */
  selector?: string | undefined;
  clock: Clock;
  log: Logger;
  onAnswer?: ((answer: ClusterAnswer) => void) | undefined;
  /** For tests: timeouts in milliseconds. */
  times?: { deadlineMs?: number; idleMs?: number; relistMs?: number; stopMs?: number };
};

/** How long `stop` waits for writes in progress and for Events. */
const STOP_MS = 10_000;

type Cluster = Resources & {
  watches(): WatchState[];
  bindingFaults(): BindingFaults[];
  /** Does nothing if the object is gone or was recreated. */
  remove(object: AnyObject): Promise<void>;
};

/**
 * Opens the objects and Secrets of a Kubernetes cluster. A write throws `ClusterRefused` if the cluster
 * refuses it, and `ClusterError` for any other failure.
 */
export async function openCluster(options: Options): Promise<Cluster> {
  const { access, namespace, watched, selector, clock, log, onAnswer, times = {} } = options;
  const { deadlineMs, stopMs = STOP_MS, ...watchTimes } = times;
  const client = await createClusterClient({
    access,
    onAnswer,
    ...(deadlineMs !== undefined && { deadlineMs }),
  });
  const common = { clock, log, ...watchTimes };
  const listeners = new Set<(change: Change) => void>();
  const underWay = new Set<Promise<unknown>>();
  const secrets = createClusterSecrets(client);
  const events = createClusterEvents(client, clock);

  function notify(change: Change): void {
    for (const listener of listeners) listener(change);
  }

  const copyOf = (kind: Kind): Reflector<AnyObject> =>
    namespacedCopy(watched, (within) =>
      createReflector<AnyObject>({
        ...common,
        collection: kindCollection(client, kind, within),
        read: (object) => objectOf(kind, object),
        onChange: (object) => notify({ kind, ...object }),
      }),
    );
  const copies = { Platform: copyOf("Platform"), Agent: copyOf("Agent"), Delegation: copyOf("Delegation") };
  // The copy of Secrets contains only versions. Reconcilers read a Secret's content when they need it.
  const secretWatch = namespacedCopy(watched, (within) =>
    createReflector<string>({
      ...common,
      collection: secretCollection(client, within),
      read: ({ metadata }) => metadata.resourceVersion,
      onChange: (secret) => notify({ kind: "Secret", ...secret }),
    }),
  );
  const bindings = createClusterBindings(
    (selector, onChange) =>
      createReflector({
        ...common,
        collection: configMapCollection(client, namespace, selector),
        read: bindingsObjectOf,
        onChange,
      }),
    () => notify({ kind: "Bindings", namespace: "", name: "" }),
  );
  const served =
    selector === undefined
      ? undefined
      : createReflector<string>({
          ...common,
          collection: namespaceCollection(client, selector),
          read: ({ metadata }) => metadata.uid,
          onChange: ({ name }) => notify({ kind: "Namespace", namespace: name, name }),
        });
  const copiesOfAll = [...Object.values(copies), secretWatch, bindings, ...(served ? [served] : [])];
  const objects = createClusterObjects({
    client,
    note: (kind, answer) => copies[kind].note(answer),
    noteEnd: ({ kind, metadata }) => copies[kind].noteEnd(metadata),
  });

  function tracked<T>(work: Promise<T>): Promise<T> {
    const done = work.then(
      () => undefined,
      () => undefined,
    );
    underWay.add(done);
    void done.then(() => underWay.delete(done));
    return work;
  }

  return {
    async start() {
      await Promise.all(copiesOfAll.map((copy) => copy.start()));
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    list: <K extends Kind>(kind: K) => copies[kind].values() as ObjectOfKind[K][],
    get: <K extends Kind>(kind: K, of: string, name: string) =>
      copies[kind].get(of, name) as ObjectOfKind[K] | undefined,
    isCurrent: objects.isCurrent,
    binding: bindings.get,
    serves: (name) => served === undefined || served.get("", name) !== undefined,
    namespaceUid: (name) => readNamespaceUid(client, name),
    watches: () => copiesOfAll.map((copy) => copy.state()),
    bindingFaults: bindings.faults,
    remove: objects.remove,
    setFinalizer: (object, present) => tracked(objects.setFinalizer(object, present)),
    writeStatus: (object, status) => tracked(objects.writeStatus(object, status)),
    readSecret: secrets.read,
    writeSecret: (secret, previous) => tracked(secrets.write(secret, previous)),
    removeSecret: (secret) => tracked(secrets.remove(secret)),
    recordEvent: events.record,
    async stop() {
      await Promise.all(copiesOfAll.map((copy) => copy.stop()));
      const finished = new AbortController();
      const rest = Promise.all(underWay)
        .then(events.flush)
        .then(() => finished.abort());
      await pause(stopMs, finished.signal);
      // Aborts the calls that are still running.
      await client.close();
      await rest;
    },
  };
}

/** Reads each namespace separately, so a role in each of these namespaces suffices. */
function namespacedCopy<T>(
  namespaces: readonly string[] | undefined,
  create: (namespace?: string) => Reflector<T>,
): Reflector<T> {
  if (namespaces === undefined) return create();
  const copies = new Map(namespaces.map((name) => [name, create(name)]));
  const all = [...copies.values()];
  return {
    async start() {
      await Promise.all(all.map((copy) => copy.start()));
    },
    get: (namespace, name) => copies.get(namespace)?.get(namespace, name),
    values: () => all.flatMap((copy) => copy.values()),
    state: () => togetherState(all.map((copy) => copy.state())),
    note(answer) {
      copies.get(listedObject.parse(answer).metadata.namespace)?.note(answer);
    },
    noteEnd: (object) => copies.get(object.namespace)?.noteEnd(object),
    async stop() {
      await Promise.all(all.map((copy) => copy.stop()));
    },
  };
}
