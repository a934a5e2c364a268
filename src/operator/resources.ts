import { type AnyObject, type CommonStatus, type Kind, kinds, type ObjectOfKind } from "./kinds.ts";
import type { Reason } from "./reconcile/ready_reasons.ts";
import type { Binding } from "./tenants.ts";

/** Something that may have changed; what and how is found by reading. `Tenants` means all bindings. */
export type Change = { kind: Kind | "Secret" | "Tenants"; namespace: string; name: string };

/** A Secret; values are text. `version` changes with every change of the Secret. */
export type Secret = {
  namespace: string;
  name: string;
  type: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  data: Record<string, string>;
  version: string;
};

/** Something that happened to an object, for people. */
export type ObjectEvent = { type: "Normal" | "Warning"; reason: Reason | "ExpiresSoon"; message: string };

/**
 * Where objects, bindings and Secrets live: a folder or a cluster. Objects that it gives are never changed in
 * place. Reads of objects come from a complete copy in memory; writes are durable when they resolve. Every
 * write names its object by uid, so an object created again under the same name is never touched by mistake.
 * A write that the cluster refuses, and will until a person changes something, throws `ClusterRefused`; a
 * folder refuses none.
 */
export type Resources = {
  /** Fills the copy and keeps it up to date from then on. Every object there is shows as a change once. */
  start(): Promise<void>;
  /**
   * Hears of every change, its own writes included, until the function that it answers is called. Listeners
   * return immediately and do not throw.
   */
  subscribe(listener: (change: Change) => void): () => void;
  list<K extends Kind>(kind: K): ObjectOfKind[K][];
  get<K extends Kind>(kind: K, namespace: string, name: string): ObjectOfKind[K] | undefined;
  /**
   * Whether an object is where it lives as it is here: the same one, of the same generation, and being
   * deleted or not. It is read there now; if it is not, the copy is told and a change follows.
   */
  isCurrent(object: AnyObject): Promise<boolean>;
  /** The binding of a namespace; `undefined` when there is none. */
  binding(namespace: string): Binding | undefined;
  /** Adds or removes the operator's finalizer. Removing the last one of a deleted object ends it. */
  setFinalizer(object: AnyObject, present: boolean): Promise<void>;
  /**
   * Writes what the operator says of an object, leaving what others say. Nothing happens when the object is
   * gone.
   */
  writeStatus(object: AnyObject, status: CommonStatus): Promise<void>;
  readSecret(namespace: string, name: string): Promise<Secret | undefined>;
  /**
   * Creates a Secret, or replaces exactly `previous`. `false`: another one is there, which was left as it is.
   */
  writeSecret(secret: Omit<Secret, "version">, previous?: Secret): Promise<boolean>;
  /**
   * Removes exactly this version of a Secret. `false`: it has changed and was left; `true` also when it was
   * gone.
   */
  removeSecret(secret: Secret): Promise<boolean>;
  /** Tells people. Never fails; an event may be lost. */
  recordEvent(object: AnyObject, event: ObjectEvent): void;
  /** Ends the updates. Writes under way are finished. */
  stop(): Promise<void>;
};

/** Every object of every kind. */
export function allObjects({ list }: Pick<Resources, "list">): AnyObject[] {
  return kinds.flatMap((kind): AnyObject[] => list(kind));
}
