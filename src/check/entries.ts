import { BINDINGS_LABEL } from "../operator/cluster/bindings.ts";
import { type Identified, identify, isMapping, readYaml } from "../operator/folder/documents.ts";
import type { ManifestText } from "../operator/folder/listing.ts";
import { API_VERSION, kinds } from "../operator/kinds.ts";
import { BINDINGS_NAME } from "../operator/namespace_bindings.ts";
import { nearest } from "./suggest.ts";

/**
 * The place of something. Documents count from 1, and 0 is the whole file. `path` is the field in the
 * document, and empty for the whole document.
 */
export type Spot = { file: string; document: number; path: string };

/** A part of a file that cannot be used. `line` is known for some files that are not YAML. */
export type Unusable = Spot & { message: string; suggestion?: string | undefined; line?: number | undefined };

/** A ConfigMap that binds namespaces to accounts. */
export type BindingsEntry = { spot: Spot; name: string; namespace: string; data: Record<string, string> };

/** An object of one of the kinds. `spot.path` is empty, or the item in a List. */
export type ObjectEntry = { spot: Spot } & Omit<Extract<Identified, { type: "object" }>, "type">;

/** The content of some files. `others` counts the documents that have nothing to do with Deputize. */
export type Entries = {
  objects: ObjectEntry[];
  bindings: BindingsEntry[];
  unusable: Unusable[];
  others: number;
};

/** Finds the objects and namespace bindings in files. Also reads the items of a `List`. */
export function readEntries(files: readonly ManifestText[]): Entries {
  const entries: Entries = { objects: [], bindings: [], unusable: [], others: 0 };
  for (const { path: file, text, fault } of files) {
    const read = text === undefined ? { fault } : readYaml(text);
    if (read.fault !== undefined) {
      const { fault: message, line } = { line: undefined, ...read };
      entries.unusable.push({ file, document: 0, path: "", message, line });
      continue;
    }
    for (const [index, value] of read.values.entries()) {
      addDocument(entries, value, { file, document: index + 1, path: "" });
    }
  }
  return entries;
}

function addDocument(entries: Entries, value: unknown, spot: Spot): void {
  if (value === null || value === undefined) return;
  if (isMapping(value) && value.apiVersion === "v1" && value.kind === "List" && Array.isArray(value.items)) {
    for (const [index, item] of value.items.entries()) {
      add(entries, item, { ...spot, path: `items[${index}]` });
    }
  } else {
    add(entries, value, spot);
  }
}

function add(entries: Entries, value: unknown, spot: Spot): void {
  if (!isMapping(value) || !isOurs(value)) {
    entries.others += 1;
    return;
  }
  const fault = headFault(value);
  if (fault !== undefined) {
    const path = joined(spot.path, fault.path);
    entries.unusable.push({ ...spot, path, message: fault.message, suggestion: fault.suggestion });
    return;
  }
  const identified = identify(asBindings(value));
  if (identified.type === "object") {
    entries.objects.push({ spot, key: identified.key, value: identified.value });
  } else if (identified.type === "bindings") {
    const { name, namespace = "default" } = value.metadata as Record<string, unknown>;
    const place = { name: String(name), namespace: String(namespace) };
    entries.bindings.push({ spot, ...place, data: identified.data });
  } else if (identified.type === "unknown") {
    const path = joined(spot.path, identified.path ?? "");
    entries.unusable.push({ ...spot, path, message: identified.fault });
  }
}

/** Returns the path of a field below another one. */
export function joined(above: string, path: string): string {
  return above === "" || path === "" ? above + path : `${above}.${path}`;
}

const [GROUP = ""] = API_VERSION.split("/");

/** Returns whether a document is for Deputize, or was meant to be. */
function isOurs(value: Record<string, unknown>): boolean {
  const { apiVersion, kind } = value;
  if (isBindings(value)) return true;
  if (typeof apiVersion === "string" && apiVersion !== "") {
    return isOurGroup(apiVersion) || (isOurKind(kind) && !apiVersion.includes("/"));
  }
  return isOurKind(kind) || Object.values(value).some((member) => member === API_VERSION);
}

function isOurKind(kind: unknown): boolean {
  return kinds.some((known) => known === kind);
}

function isOurGroup(apiVersion: string): boolean {
  const [group = ""] = apiVersion.split("/");
  return nearest(group, [GROUP]) !== undefined;
}

function isBindings({ apiVersion, kind, metadata }: Record<string, unknown>): boolean {
  if (apiVersion !== "v1" || kind !== "ConfigMap" || !isMapping(metadata)) return false;
  const { name, labels } = metadata;
  return name === BINDINGS_NAME || (isMapping(labels) && labels[BINDINGS_LABEL] === "true");
}

/** The folder's reader knows only the ConfigMap `deputize-tenants`, but a label has the same effect. */
function asBindings(value: Record<string, unknown>): Record<string, unknown> {
  return isBindings(value) ? { ...value, metadata: { name: BINDINGS_NAME } } : value;
}

type HeadFault = { path: string; message: string; suggestion?: string | undefined };

function headFault(value: Record<string, unknown>): HeadFault | undefined {
  if (isBindings(value)) return undefined;
  const { apiVersion, kind } = value;
  for (const name of ["apiVersion", "kind"]) {
    if (typeof value[name] === "string") continue;
    const wrong = nearest(name, Object.keys(value));
    if (wrong === undefined) return { path: name, message: "is required" };
    return { path: wrong, message: "unknown field", suggestion: name };
  }
  if (apiVersion !== API_VERSION) {
    return { path: "apiVersion", message: `${shown(apiVersion)} does not exist`, suggestion: API_VERSION };
  }
  if (isOurKind(kind)) return undefined;
  const suggestion = nearest(String(kind), kinds);
  const choice = suggestion === undefined ? `: it has ${kinds.join(", ")}` : "";
  return { path: "kind", message: `${shown(kind)} is not a kind of ${API_VERSION}${choice}`, suggestion };
}

const SHOWN_CHARACTERS = 80;

/** Quotes a value of a manifest for a message, and cuts it to a readable length. */
export function shown(value: unknown): string {
  const text = String(value);
  return JSON.stringify(text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text);
}
