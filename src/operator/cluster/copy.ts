import { isDeepStrictEqual } from "node:util";

/** One object in the local copy of its kind. */
export type Entry<T> = {
  namespace: string;
  name: string;
  uid: string;
  /** The resourceVersion. A later change, also of a different object, has a larger version. */
  version: bigint;
  value: T;
};

/** The name of an object within its kind. */
export type ObjectName = { namespace: string; name: string };

/**
 * A local copy of all objects of a kind. Lists, watch events and the operator's own writes may arrive in any
 * order. The copy never returns to an earlier state of an object.
 */
export type Copy<T> = {
  get(namespace: string, name: string): T | undefined;
  values(): T[];
  /** Stores a state of an object, unless the copy already has a later state of it. */
  put(entry: Entry<T>): void;
  /**
   * Removes an object that no longer exists in the cluster or, as of `version`, no longer matches the
   * selector. Does not remove another object with the same name.
   */
  remove(object: ObjectName & { uid: string; version?: bigint }): void;
  /**
   * Applies a complete list as of `version`. Removes objects that the list lacks, unless they are newer than
   * the list. If the list is older than the copy, the cluster was restored, so the list replaces the copy.
   */
  replace(entries: readonly Entry<T>[], version: bigint): void;
  /** Returns the version up to which the copy is complete. */
  version(): bigint;
  advance(version: bigint): void;
};

/**
 * Creates an empty copy. It calls `onChange` after each change of a value, with the name of the object. A new
 * version of an equal value is not a change: the API server also stores who wrote a field, and when.
 */
export function createCopy<T>(onChange: (object: ObjectName) => void): Copy<T> {
  let entries = new Map<string, Entry<T>>();
  /**
   * Uids of removed objects, so that late events do not restore these objects. An object with a version here
   * can match the selector again later.
   */
  let ended = new Map<string, bigint | undefined>();
  let seen = 0n;
  const idOf = ({ namespace, name }: ObjectName) => `${namespace}/${name}`;
  const notify = ({ namespace, name }: ObjectName) => onChange({ namespace, name });

  function hasEnded({ uid, version }: Entry<T>): boolean {
    if (!ended.has(uid)) return false;
    const end = ended.get(uid);
    return end === undefined || version <= end;
  }

  function put(entry: Entry<T>): void {
    const known = entries.get(idOf(entry));
    if (hasEnded(entry) || (known !== undefined && known.version >= entry.version)) return;
    ended.delete(entry.uid);
    entries.set(idOf(entry), entry);
    if (known === undefined || !isDeepStrictEqual(known.value, entry.value)) notify(entry);
  }

  function applyList(listed: readonly Entry<T>[], version: bigint): void {
    const uids = new Set(listed.map(({ uid }) => uid));
    ended = new Map([...ended].filter(([uid]) => uids.has(uid)));
    for (const entry of entries.values()) {
      if (uids.has(entry.uid) || entry.version > version) continue;
      entries.delete(idOf(entry));
      notify(entry);
    }
    for (const entry of listed) put(entry);
  }

  function restoreFrom(listed: readonly Entry<T>[]): void {
    const former = entries;
    entries = new Map(listed.map((entry) => [idOf(entry), entry]));
    ended = new Map();
    for (const [id, entry] of new Map([...former, ...entries])) {
      if (former.get(id)?.version !== entries.get(id)?.version) notify(entry);
    }
  }

  return {
    get: (namespace, name) => entries.get(idOf({ namespace, name }))?.value,
    values: () => [...entries.values()].map(({ value }) => value),
    put,
    remove(object) {
      ended.set(object.uid, object.version);
      if (entries.get(idOf(object))?.uid !== object.uid) return;
      entries.delete(idOf(object));
      notify(object);
    },
    replace(listed, version) {
      if (version < seen) {
        restoreFrom(listed);
      } else {
        applyList(listed, version);
      }
      seen = version;
    },
    version: () => seen,
    advance(version) {
      if (version > seen) seen = version;
    },
  };
}
