import { type AnyObject, type CommonStatus, type Kind, kinds, type ObjectOfKind } from "./kinds.ts";
import type { Reason } from "./reconcile/ready_reasons.ts";
import type { Binding } from "./tenants.ts";

/**
 * Identifies what may have changed. The listener reads the copy to find out what changed. `Tenants` stands
 * for all namespace bindings.
 */
export type Change = { kind: Kind | "Secret" | "Tenants"; namespace: string; name: string };

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
 * complete copy in memory. Callers must not change a returned object. Writes are durable when they resolve.
 * Every write identifies its object by uid, so it never touches an object that was recreated under the same
 * name. A write throws `ClusterRefused` if the cluster refuses it and will refuse it until somebody changes
 * something. A folder refuses no write.
 */
export type Resources = {
  /** Fills the copy and keeps it up to date from then on. Reports each existing object once as a change. */
  start(): Promise<void>;
  /**
   * Calls the listener for every change, including the operator's own writes, until the returned function
   * is called. Listeners must return immediately and must not throw.
   */
  subscribe(listener: (change: Change) => void): () => void;
  list<K extends Kind>(kind: K): ObjectOfKind[K][];
  get<K extends Kind>(kind: K, namespace: string, name: string): ObjectOfKind[K] | undefined;
  /**
   * Reads the object at its source. Returns whether the object still has the same uid, generation and
   * deletion state. If not, updates the copy, and a change follows.
   */
  isCurrent(object: AnyObject): Promise<boolean>;
  /** Returns the binding of a namespace; `undefined` if there is none. */
  binding(namespace: string): Binding | undefined;
  /**
   * Adds or removes the operator's finalizer. Removing the last finalizer of a deleted object removes the
   * object.
   */
  setFinalizer(object: AnyObject, present: boolean): Promise<void>;
  /**
   * Writes the operator's part of an object's status and keeps the parts that others write. Does nothing if
   * the object no longer exists.
   */
  writeStatus(object: AnyObject, status: CommonStatus): Promise<void>;
  readSecret(namespace: string, name: string): Promise<Secret | undefined>;
  /**
   * Creates a Secret, or replaces exactly `previous`. Returns `false`, and changes nothing, if a different
   * Secret exists under the same name.
   */
  writeSecret(secret: Omit<Secret, "version">, previous?: Secret): Promise<boolean>;
  /**
   * Removes exactly this version of a Secret. Returns `false`, and removes nothing, if the Secret has
   * changed. Returns `true` if the Secret no longer exists.
   */
  removeSecret(secret: Secret): Promise<boolean>;
  /** Records a human-readable event. Never fails, but an event may be lost. */
  recordEvent(object: AnyObject, event: ObjectEvent): void;
  /** Stops the updates and finishes the writes in progress. */
  stop(): Promise<void>;
};

/** Returns all objects of all kinds. */
export function allObjects({ list }: Pick<Resources, "list">): AnyObject[] {
  return kinds.flatMap((kind): AnyObject[] => list(kind));
}
