import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";

export type StoredObject = { metadata: StoredMetadata; [field: string]: unknown };
type StoredMetadata = {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation: number;
  creationTimestamp: string;
  labels?: Record<string, string>;
  finalizers?: string[];
  deletionTimestamp?: string;
};

/** A collection such as `/api/v1/secrets`, or one object of it. */
export type Place = { collection: string; namespace?: string; name?: string; isStatus: boolean };

/** Field and label selectors of a list or watch. */
export type Selectors = Pick<URLSearchParams, "get">;
export type WatchEvent = { type: "ADDED" | "MODIFIED" | "DELETED"; object: StoredObject };

/** A refused call, with its HTTP status. The message is the reason in the `Status` object. */
export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** Objects of a cluster in memory, with uids, versions, generations, finalizers and preconditions. */
export type FakeObjects = {
  version(): number;
  get(place: Place): StoredObject;
  list(place: Place, selectors?: Selectors): StoredObject[];
  create(place: Place, body: StoredObject): StoredObject;
  /** Applies a merge patch. */
  patch(place: Place, body: StoredObject): StoredObject;
  /** Replaces the spec and merges the rest. Creates a missing object. */
  apply(place: Place, body: StoredObject): StoredObject;
  replace(place: Place, body: StoredObject): StoredObject;
  /** Removes an object, or all objects of a collection. */
  remove(place: Place, preconditions?: object): StoredObject | undefined;
  /** Calls the listener for every change after `version`, until the returned function is called. */
  watch(place: Place, selectors: Selectors, version: number, on: (event: WatchEvent) => void): () => void;
};

type Change = { place: Place; version: number; before?: StoredObject; after?: StoredObject };

export function createFakeObjects(): FakeObjects {
  const objects = new Map<string, StoredObject>();
  const history: Change[] = [];
  const listeners = new Set<(change: Change) => void>();
  let version = 1_000;

  const idOf = ({ collection, namespace, name }: Place) => `${collection} ${namespace} ${name}`;

  function get(place: Place): StoredObject {
    const known = objects.get(idOf(place));
    if (known === undefined) throw new Refusal(404, "NotFound");
    return known;
  }

  function list(place: Place, selectors: Selectors = new URLSearchParams()): StoredObject[] {
    return [...objects].flatMap(([id, object]) => {
      const [collection, namespace] = id.split(" ");
      const isWithin = place.namespace === undefined || place.namespace === namespace;
      const isListed = collection === place.collection && isWithin && isSelected(object, selectors);
      return isListed ? [object] : [];
    });
  }

  /** Stores a state of an object, or removes the object if `next` is `undefined`. */
  function store(place: Place, next: StoredObject | undefined): StoredObject {
    const before = objects.get(idOf(place));
    version += 1;
    const after = next && { ...next, metadata: { ...next.metadata, resourceVersion: String(version) } };
    if (after === undefined) objects.delete(idOf(place));
    if (after !== undefined) objects.set(idOf(place), after);
    const change = { place, version, ...(before && { before }), ...(after && { after }) };
    history.push(change);
    for (const listener of listeners) listener(change);
    return (after ?? before) as StoredObject;
  }

  /** Stores a changed object, or removes it if its deletion waited for its last finalizer. */
  function settle(place: Place, next: StoredObject): StoredObject {
    const { deletionTimestamp, finalizers = [] } = next.metadata;
    if (deletionTimestamp === undefined || finalizers.length > 0) return store(place, next);
    store(place, undefined);
    return { ...next, metadata: { ...next.metadata, resourceVersion: String(version) } };
  }

  function update(place: Place, known: StoredObject, next: StoredObject): StoredObject {
    if (isDeepStrictEqual(next, known)) return known;
    const { generation } = known.metadata;
    const metadata = {
      ...next.metadata,
      generation: isDeepStrictEqual(next.spec, known.spec) ? generation : generation + 1,
    };
    return settle(place, { ...next, metadata });
  }

  function create(place: Place, { stringData, ...body }: StoredObject): StoredObject {
    const target = { ...place, name: place.name ?? body.metadata.name };
    if (objects.has(idOf(target))) throw new Refusal(409, "AlreadyExists");
    const texts = Object.entries((stringData ?? {}) as Record<string, string>);
    const data = Object.fromEntries(texts.map(([key, value]) => [key, btoa(value)]));
    return store(target, {
      ...body,
      ...(stringData !== undefined && { data }),
      metadata: {
        ...body.metadata,
        ...(place.namespace !== undefined && { namespace: place.namespace }),
        name: target.name,
        uid: randomUUID(),
        resourceVersion: "",
        generation: 1,
        creationTimestamp: new Date().toISOString(),
      },
    });
  }

  function patch(place: Place, { status, ...body }: StoredObject): StoredObject {
    const known = get(place);
    const { uid, resourceVersion, ...metadata } = body.metadata ?? {};
    checkExpected({ ...(uid && { uid }), ...(resourceVersion && { resourceVersion }) }, known);
    return update(place, known, merged(known, place.isStatus ? { status } : { ...body, metadata }));
  }

  function remove(place: Place, preconditions: object = {}): StoredObject | undefined {
    if (place.name === undefined) {
      for (const { metadata } of list(place)) remove({ ...place, name: metadata.name });
      return undefined;
    }
    const known = get(place);
    checkExpected(preconditions, known);
    const deletionTimestamp = known.metadata.deletionTimestamp ?? new Date().toISOString();
    return settle(place, { ...known, metadata: { ...known.metadata, deletionTimestamp } });
  }

  return {
    version: () => version,
    get,
    list,
    create,
    patch,
    apply(place, { status: _, ...body }) {
      if (!objects.has(idOf(place))) return create(place, body);
      const known = get(place);
      return update(place, known, merged({ ...known, spec: {} }, body));
    },
    replace(place, { stringData, ...body }) {
      const known = get(place);
      const { data } = create({ ...place, collection: "none" }, { stringData, ...body });
      const metadata = { ...known.metadata, ...body.metadata };
      return update(place, known, { ...body, ...(data !== undefined && { data }), metadata });
    },
    remove,
    watch(place, selectors, since, on) {
      const tell = (change: Change) => {
        const event = eventOf(change, place, selectors);
        if (event !== undefined) on(event);
      };
      for (const change of history) if (change.version > since) tell(change);
      listeners.add(tell);
      return () => void listeners.delete(tell);
    },
  };
}

function checkExpected(expected: object, { metadata }: StoredObject): void {
  if (!isPartOf(metadata, expected)) throw new Refusal(409, "Conflict");
}

function eventOf(change: Change, place: Place, selectors: Selectors): WatchEvent | undefined {
  const { before, after, version } = change;
  const isWithin = place.namespace === undefined || change.place.namespace === place.namespace;
  if (change.place.collection !== place.collection || !isWithin) return undefined;
  const was = before !== undefined && isSelected(before, selectors);
  const is = after !== undefined && isSelected(after, selectors);
  if (!was && !is) return undefined;
  const { metadata, ...rest } = (after ?? before) as StoredObject;
  const object = { ...rest, metadata: { ...metadata, resourceVersion: String(version) } };
  return { type: is ? (was ? "MODIFIED" : "ADDED") : "DELETED", object };
}

function isSelected({ metadata, type }: StoredObject, selectors: Selectors): boolean {
  const fields = { "metadata.name": metadata.name, type };
  return (
    isPartOf(fields, parsed(selectors.get("fieldSelector"))) &&
    isPartOf(metadata.labels ?? {}, parsed(selectors.get("labelSelector")))
  );
}

function parsed(selector: string | null): object {
  const [key = "", value] = (selector ?? "").split("=");
  return value === undefined ? {} : { [key]: value };
}

function isPartOf(whole: { [key: string]: unknown }, part: object): boolean {
  return Object.entries(part).every(([key, value]) => whole[key] === value);
}

/** Applies a JSON merge patch. */
function merged<T>(base: T, change: unknown): T {
  if (!isObject(change)) return change as T;
  const next: { [key: string]: unknown } = isObject(base) ? { ...base } : {};
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete next[key];
    if (value !== null && value !== undefined) next[key] = merged(next[key], value);
  }
  return next as T;
}

function isObject(value: unknown): value is { [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
