/** One object of a cluster, as one kind's copy keeps it. */
export type Entry<T> = {
  namespace: string;
  name: string;
  uid: string;
  /** Its resourceVersion: over all objects, the later change has the larger one. */
  version: bigint;
  value: T;
};

/** The name of an object within its kind. */
export type ObjectName = { namespace: string; name: string };

/**
 * A copy of all objects of a kind. It hears of them by lists, by watch events and by what its owner writes,
 * in any order, and never goes back to an earlier state of an object.
 */
export type Copy<T> = {
  get(namespace: string, name: string): T | undefined;
  values(): T[];
  /** Takes a state of an object, unless a later one is known. */
  put(entry: Entry<T>): void;
  /** An object ended. Another one of its name stays. */
  remove(object: ObjectName & { uid: string }): void;
  /**
   * Takes a complete list as of `version`: what is not in it has ended, unless it is newer than the list. A
   * list from before what the copy has seen means that the cluster was restored, and counts as it is.
   */
  replace(entries: readonly Entry<T>[], version: bigint): void;
  /** The version up to which everything is known. */
  version(): bigint;
  /** Everything up to this version is known. */
  advance(version: bigint): void;
};

/** An empty copy. `onChange` is called after each change with the name of the object. */
export function createCopy<T>(onChange: (object: ObjectName) => void): Copy<T> {
  let entries = new Map<string, Entry<T>>();
  /** What its owner ended: late news of these objects is ignored. */
  let ended = new Set<string>();
  let seen = 0n;
  const idOf = ({ namespace, name }: ObjectName) => `${namespace}/${name}`;
  const tell = ({ namespace, name }: ObjectName) => onChange({ namespace, name });

  function put(entry: Entry<T>): void {
    const known = entries.get(idOf(entry));
    if (ended.has(entry.uid) || (known !== undefined && known.version >= entry.version)) return;
    entries.set(idOf(entry), entry);
    tell(entry);
  }

  function goOn(listed: readonly Entry<T>[], version: bigint): void {
    const uids = new Set(listed.map(({ uid }) => uid));
    ended = ended.intersection(uids);
    for (const entry of entries.values()) {
      if (uids.has(entry.uid) || entry.version > version) continue;
      entries.delete(idOf(entry));
      tell(entry);
    }
    for (const entry of listed) put(entry);
  }

  function goBack(listed: readonly Entry<T>[]): void {
    const former = entries;
    entries = new Map(listed.map((entry) => [idOf(entry), entry]));
    ended = new Set();
    for (const [id, entry] of new Map([...former, ...entries])) {
      if (former.get(id)?.version !== entries.get(id)?.version) tell(entry);
    }
  }

  return {
    get: (namespace, name) => entries.get(idOf({ namespace, name }))?.value,
    values: () => [...entries.values()].map(({ value }) => value),
    put,
    remove(object) {
      ended.add(object.uid);
      if (entries.get(idOf(object))?.uid !== object.uid) return;
      entries.delete(idOf(object));
      tell(object);
    },
    replace(listed, version) {
      if (version < seen) {
        goBack(listed);
      } else {
        goOn(listed, version);
      }
      seen = version;
    },
    version: () => seen,
    advance(version) {
      if (version > seen) seen = version;
    },
  };
}
