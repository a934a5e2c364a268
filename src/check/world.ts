import type { ManifestText } from "../operator/folder/listing.ts";
import { type AnyObject, type Key, keyText, type kinds, type ObjectOfKind } from "../operator/kinds.ts";
import { type Binding, bindingsOf } from "../operator/namespace_bindings.ts";
import type { Schemas } from "../operator/schema/schemas.ts";
import type { SchemaViolation } from "../operator/schema/structure.ts";
import { type BindingsEntry, type Entries, type ObjectEntry, readEntries, type Spot } from "./entries.ts";

/** An object that its definition accepts, and where it is declared. */
export type Declared = { spot: Spot; object: AnyObject };

/** A declared object that its definition refuses. */
export type Refused = { spot: Spot; key: Key; violations: SchemaViolation[] };

/** Everything that some files declare. Objects are keyed by `keyText`, and bindings by namespace. */
export type World = Pick<Entries, "unusable" | "others"> & {
  declared: ReadonlyMap<string, Declared>;
  refused: readonly Refused[];
  /** The declarations of objects that are declared more than once. None of them is in `declared`. */
  repeated: readonly ObjectEntry[];
  bindings: ReadonlyMap<string, Binding & { spot: Spot }>;
  repeatedBindings: readonly BindingsEntry[];
};

/**
 * Reads the files as the operator would. Validates each object as a change of the object with the same kind
 * and name in `former`, if there is one.
 */
export function readWorld(files: readonly ManifestText[], schemas: Schemas, former?: World): World {
  const { objects, bindings, unusable, others } = readEntries(files);
  const [unique, repeated] = split(objects, ({ key }) => keyText(key));
  const [maps, repeatedBindings] = split(bindings, ({ name, namespace }) => `${namespace}/${name}`);
  const declared = new Map<string, Declared>();
  const refused: Refused[] = [];
  for (const { spot, key, value } of unique) {
    const { object, violations } = schemas.validate(value, former?.declared.get(keyText(key))?.object);
    if (violations === undefined) {
      declared.set(keyText(key), { spot, object: withStatus(object) });
    } else {
      refused.push({ spot, key, violations });
    }
  }
  return { declared, refused, repeated, unusable, others, bindings: join(maps), repeatedBindings };
}

/** Separates the entries whose id is unique from the others. */
function split<T>(entries: readonly T[], idOf: (entry: T) => string): [unique: T[], repeated: T[]] {
  const counts = new Map<string, number>();
  for (const entry of entries) counts.set(idOf(entry), (counts.get(idOf(entry)) ?? 0) + 1);
  const isUnique = (entry: T) => counts.get(idOf(entry)) === 1;
  return [entries.filter(isUnique), entries.filter((entry) => !isUnique(entry))];
}

function join(maps: readonly BindingsEntry[]): World["bindings"] {
  const spots = new Map(
    maps.flatMap(({ spot, data }) =>
      Object.keys(data).map((namespace): [string, Spot] => [
        namespace,
        { ...spot, path: spot.path === "" ? `data.${namespace}` : `${spot.path}.data.${namespace}` },
      ]),
    ),
  );
  const joined = [...bindingsOf(maps)].flatMap(([namespace, binding]) => {
    const spot = spots.get(namespace);
    return spot === undefined ? [] : [[namespace, { ...binding, spot }] as const];
  });
  return new Map(joined);
}

/** The definition has accepted the object, so only the fields that the server sets are missing. */
function withStatus(object: object): AnyObject {
  return { ...object, status: {} } as AnyObject;
}

/** Returns the objects of a kind that are valid and declared only once. */
export function objectsOf<K extends (typeof kinds)[number]>(
  { declared }: World,
  kind: K,
): (Declared & { object: ObjectOfKind[K] })[] {
  return [...declared.values()].filter(
    (each): each is Declared & { object: ObjectOfKind[K] } => each.object.kind === kind,
  );
}

/** Returns a declared object of a kind. */
export function objectIn<K extends (typeof kinds)[number]>(
  { declared }: World,
  key: { kind: K; namespace: string; name: string },
): ObjectOfKind[K] | undefined {
  return declared.get(keyText(key))?.object as ObjectOfKind[K] | undefined;
}
