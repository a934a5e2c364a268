import { isDeepStrictEqual } from "node:util";
import { type AnyObject, type Key, keyOf, keyText } from "../kinds.ts";
import { BINDINGS_NAME } from "../namespace_bindings.ts";
import type { Fault, Schemas } from "../schema/schemas.ts";
import type { ManifestFile } from "./documents.ts";

/** An object as a manifest declares it, without the fields that the folder adds. */
export type Manifest = Pick<AnyObject, "apiVersion" | "kind" | "spec"> & {
  metadata: {
    name: string;
    namespace: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
};

/** A stored object, and the file that last declared it. */
export type Known = { object: AnyObject; manifest: string };

/** The faults of a manifest. `document` is the document's number in the file. */
export type ManifestError = { file: string; document?: number; object?: Key; faults: string[] };

/** The namespace bindings that the folder currently declares, and the file that contains them. */
export type BindingsFound = { data: Record<string, string>; manifest: string };

/** The result of comparing a folder with the stored objects. Objects that the plan omits stay unchanged. */
export type Plan = {
  accepted: { key: Key; manifest: Manifest; file: string }[];
  refused: { key: Key; message: string; file: string }[];
  /** Objects with an unchanged manifest, possibly in another file. */
  unchanged: { key: Key; file: string }[];
  removed: Key[];
  /** `undefined` if the namespace bindings cannot be read. The stored bindings then stay in effect. */
  bindings?: BindingsFound | "none";
  errors: ManifestError[];
};

type Input = {
  files: readonly ManifestFile[];
  known: ReadonlyMap<string, Known>;
  bindings?: BindingsFound | undefined;
  schemas: Schemas;
};
type Declaration = { file: string; number: number; key: Key; value: object };

/**
 * Compares a complete reading of the folder with the stored objects. A refused manifest changes nothing. An
 * object counts as removed only if its file is readable as a whole and no longer declares the object.
 */
export function planChanges({ files, known, bindings, schemas }: Input): Plan {
  const plan: Plan = { accepted: [], refused: [], unchanged: [], removed: [], errors: [] };
  const doubts = files.flatMap(doubtsOf);
  const beingWritten = new Set(files.filter((file) => file.beingWritten).map(({ path }) => path));
  plan.errors.push(...doubts.map(({ error }) => error).filter(({ file }) => !beingWritten.has(file)));
  const declared = declarations(files);
  for (const [id, group] of declared) {
    if (!mayBeDeclaredTwice(group, known.get(id), doubts)) judge(plan, group, known.get(id), schemas);
  }
  for (const [id, { object, manifest }] of known) {
    const isDoubtful = doubts.some((doubt) => concerns(doubt, manifest, object.metadata.name));
    if (!declared.has(id) && !isDoubtful) plan.removed.push(keyOf(object));
  }
  findBindings(plan, files, bindings, doubts);
  return plan;
}

/** An unreadable document or file. It may declare `name` or, without `name`, any object of the file. */
type Doubt = { error: ManifestError; name?: string | undefined };

function doubtsOf({ path, fault, documents = [] }: ManifestFile): Doubt[] {
  if (fault !== undefined) return [{ error: { file: path, faults: [fault] } }];
  return documents.flatMap(({ number, identified }) =>
    identified.type === "unknown"
      ? [{ error: { file: path, document: number, faults: [identified.fault] }, name: identified.name }]
      : [],
  );
}

function concerns({ error, name }: Doubt, file: string, objectName: string): boolean {
  return error.file === file && (name === undefined || name === objectName);
}

/**
 * Returns whether the object may be declared twice: by the given declarations, and by the file that declared
 * it before and is unreadable now.
 */
function mayBeDeclaredTwice(
  group: Declaration[],
  known: Known | undefined,
  doubts: readonly Doubt[],
): boolean {
  if (known === undefined || group.some(({ file }) => file === known.manifest)) return false;
  return doubts.some((doubt) => concerns(doubt, known.manifest, known.object.metadata.name));
}

function declarations(files: readonly ManifestFile[]): Map<string, Declaration[]> {
  const found = new Map<string, Declaration[]>();
  for (const { path, documents = [] } of files) {
    for (const { number, identified } of documents) {
      if (identified.type !== "object") continue;
      const { key, value } = identified;
      const id = keyText(key);
      found.set(id, [...(found.get(id) ?? []), { file: path, number, key, value }]);
    }
  }
  return found;
}

function judge(plan: Plan, group: Declaration[], known: Known | undefined, schemas: Schemas): void {
  const [first, ...others] = group;
  if (first === undefined) return;
  if (others.length > 0) {
    const places = group.map(({ file, number }) => `${file} (document ${number})`).join(", ");
    for (const declaration of group) refuse(plan, declaration, [`declared more than once: ${places}`]);
    return;
  }
  const { key, file, value } = first;
  const checked = schemas.validate(value, known && manifestOf(known.object));
  if (checked.violations !== undefined) {
    refuse(plan, first, checked.violations.map(violationText));
    return;
  }
  if (known?.object.metadata.deletionTimestamp !== undefined) return;
  const manifest = withoutServerFields(checked.object as Manifest);
  if (known !== undefined && isDeepStrictEqual(manifest, manifestOf(known.object))) {
    plan.unchanged.push({ key, file });
  } else {
    plan.accepted.push({ key, manifest, file });
  }
}

function refuse(plan: Plan, { key, file, number }: Declaration, faults: string[]): void {
  plan.errors.push({ file, document: number, object: key, faults });
  const message = `${file}: ${faults.join("; ")}`;
  if (!plan.refused.some((refusal) => keyText(refusal.key) === keyText(key))) {
    plan.refused.push({ key, message, file });
  }
}

function findBindings(
  plan: Plan,
  files: readonly ManifestFile[],
  before: BindingsFound | undefined,
  doubts: readonly Doubt[],
): void {
  const found = files.flatMap((file) =>
    (file.documents ?? []).flatMap(({ number, identified }) =>
      identified.type === "bindings" ? [{ data: identified.data, manifest: file.path, number }] : [],
    ),
  );
  const [first, ...others] = found;
  const isDoubtful =
    before !== undefined && doubts.some((doubt) => concerns(doubt, before.manifest, BINDINGS_NAME));
  if (others.length > 0) {
    for (const { manifest, number } of found) {
      plan.errors.push({
        file: manifest,
        document: number,
        faults: ["deputize-tenants is declared more than once"],
      });
    }
  } else if (first !== undefined && (first.manifest === before?.manifest || !isDoubtful)) {
    plan.bindings = { data: first.data, manifest: first.manifest };
  } else if (first === undefined && !isDoubtful) plan.bindings = "none";
}

/** Returns the part of an object that comes from a manifest. */
export function manifestOf({ apiVersion, kind, metadata, spec }: AnyObject): Manifest {
  return withoutServerFields({ apiVersion, kind, metadata, spec });
}

function withoutServerFields({ apiVersion, kind, metadata, spec }: Manifest): Manifest {
  const { name, namespace, labels, annotations } = metadata;
  return {
    apiVersion,
    kind,
    metadata: { name, namespace, ...(labels && { labels }), ...(annotations && { annotations }) },
    spec,
  };
}

function violationText({ path, message }: Fault): string {
  return path === "" ? message : `${path}: ${message}`;
}
