import { type AnyObject, type CommonStatus, type Kind, kinds, type ObjectOfKind } from "./kinds.ts";
import type { Binding } from "./namespace_bindings.ts";
import type { Reason } from "./reconcile/ready_reasons.ts";

/**
 * Identifies what may have changed, without the change itself. `Bindings` stands for all bindings, and
 * `Namespace` for whether the operator serves a namespace.
 */
export type Change = { kind: Kind | "Secret" | "Bindings" | "Namespace"; namespace: string; name: string };

/** A Secret with its values as strings. `version` changes with every change of the Secret. */
export type Secret = {
  namespace: string;
  name: string;
  type: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  data: Record<string, string>;
  version: string;
};

/** A human-readable event about an object. */
export type ObjectEvent = { type: "Normal" | "Warning"; reason: Reason | "ExpiresSoon"; message: string };

/**
 * The store of objects, namespace bindings and Secrets: a folder or a cluster. Reads of objects come from a
 * complete copy in memory. Callers must not change a returned object. Writes are durable when they resolve. A
 * write names its object by uid, so it never touches an object that was recreated under the same name. A
 * write throws `ClusterRefused` if the cluster will refuse it until somebody changes something. A folder
 * refuses no write.
 */
export type Resources = {
  /** Fills the copy and keeps it up to date from then on. Reports each existing object once as a change. */
  start(): Promise<void>;
  /**
   * Calls the listener for every change, also by the operator's own writes, until the returned function is
   * called. Listeners must return immediately and must not throw.
   */
  subscribe(listener: (change: Change) => void): () => void;
  list<K extends Kind>(kind: K): ObjectOfKind[K][];
  get<K extends Kind>(kind: K, namespace: string, name: string): ObjectOfKind[K] | undefined;
  /**
   * Reads the object at its source, and returns whether uid, generation and deletion state are still the
   * same. If not, updates the copy, and a change follows.
   */
  isCurrent(object: AnyObject): Promise<boolean>;
  binding(namespace: string): Binding | undefined;
  /** Returns whether the namespace matches the operator's selector. Without a selector, all namespaces do. */
  serves(namespace: string): boolean;
  /**
   * Reads the uid of a namespace at its source. A folder's namespaces are only names and have none. Throws
   * `ClusterRefused` without the right to get the namespace.
   */
  namespaceUid(namespace: string): Promise<string | undefined>;
  /** Adds or removes the operator's finalizer. A deleted object disappears with its last finalizer. */
  setFinalizer(object: AnyObject, present: boolean): Promise<void>;
  /** Writes the operator's part of an existing object's status, and keeps the parts that others write. */
  writeStatus(object: AnyObject, status: CommonStatus): Promise<void>;
  readSecret(namespace: string, name: string): Promise<Secret | undefined>;
  /** Creates a Secret, or replaces exactly `previous`. Returns `false` if a different Secret has the name. */
  writeSecret(secret: Omit<Secret, "version">, previous?: Secret): Promise<boolean>;
  /** Removes exactly this version of a Secret. Returns `false` only if the Secret has changed. */
  removeSecret(secret: Secret): Promise<boolean>;
  /** Records a human-readable event. Never fails, but an event may be lost. */
  recordEvent(object: AnyObject, event: ObjectEvent): void;
  /** Stops the updates and finishes the writes in progress. */
  stop(): Promise<void>;
};

/**
 * Returns whether to work with an object. Objects under deletion are always served, because otherwise nobody
 * would revoke their authority.
 */
export function isServed({ serves }: Pick<Resources, "serves">, { metadata }: AnyObject): boolean {
  return metadata.deletionTimestamp !== undefined || serves(metadata.namespace);
}

/** Returns all objects of all kinds. */
export function allObjects({ list }: Pick<Resources, "list">): AnyObject[] {
  return kinds.flatMap((kind): AnyObject[] => list(kind));
}
