import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { StartError } from "../../config.ts";
import { type AnyObject, API_VERSION, type Key, kinds } from "../kinds.ts";
import { isMissing, writeAtomically } from "./atomic_file.ts";
import type { BindingsFound, Known } from "./plan.ts";

const RECORD_ADVICE =
  "It is the operator's own record: restore it, or remove it so that the object is registered again.";
const BINDINGS_ADVICE =
  "It is the operator's record of which account each namespace acts for: restore it, or remove it so that the manifests are read again.";

/** Thrown at startup if a file of the operator's own state cannot be read. */
export class StateDamaged extends StartError {
  /** `advice` explains the purpose of the file and what to do. */
  constructor(file: string, advice: string = RECORD_ADVICE) {
    super(`${file} cannot be understood. ${advice}`);
    this.name = "StateDamaged";
  }
}

/** Annotation that names the manifest from which the object was read. */
const MANIFEST = "deputize.io/manifest";

const metadata = z.object({
  name: z.string(),
  namespace: z.string(),
  uid: z.string().min(1),
  generation: z.int().min(1),
  creationTimestamp: z.string(),
  deletionTimestamp: z.string().optional(),
  finalizers: z.array(z.string()).default([]),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()),
});

const stateFile = z.object({
  apiVersion: z.literal(API_VERSION),
  kind: z.enum(kinds),
  metadata,
  spec: z.record(z.string(), z.unknown()),
  status: z.record(z.string(), z.unknown()).default({}),
});

const bindingsFile = z.object({
  metadata: z.object({ annotations: z.record(z.string(), z.string()) }),
  data: z.record(z.string(), z.string()),
});

/** Returns a state file in the form of `kubectl get -o yaml`, so that it can serve as a manifest. */
export function stateText({ object, manifest }: Known): string {
  const annotations = { ...object.metadata.annotations, [MANIFEST]: manifest };
  const text = { lineWidth: 0, compat: "yaml-1.1" } as const;
  return stringify({ ...object, metadata: { ...object.metadata, annotations } }, text);
}

/** Parses a state file. Returns `undefined` for a manifest never accepted. Throws `StateDamaged`. */
export function parseState(file: string, text: string): Known | undefined {
  const document = parsed(file, text);
  if (isReport(document)) return undefined;
  const result = stateFile.safeParse(document);
  if (!result.success) throw new StateDamaged(file);
  const { [MANIFEST]: manifest, ...annotations } = result.data.metadata.annotations;
  if (manifest === undefined) throw new StateDamaged(file);
  const { annotations: _, ...rest } = result.data.metadata;
  const own = Object.keys(annotations).length > 0 ? { annotations } : {};
  return { object: { ...result.data, metadata: { ...rest, ...own } } as AnyObject, manifest };
}

/** Returns the report that replaces a state file if the manifest was never accepted. */
export function reportText({ kind, namespace, name }: Key, manifest: string, conditions: unknown[]): string {
  return stringify(
    {
      apiVersion: API_VERSION,
      kind,
      metadata: { name, namespace, annotations: { [MANIFEST]: manifest } },
      status: { conditions },
    },
    { lineWidth: 0 },
  );
}

/** Returns the content of the file that records the last accepted namespace bindings. */
export function bindingsText({ data, manifest }: BindingsFound): string {
  return stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "deputize-tenants", annotations: { [MANIFEST]: manifest } },
    data,
  });
}

/** Parses the file that records the namespace bindings. Throws `StateDamaged`. */
export function parseBindingsState(file: string, text: string): BindingsFound {
  const result = bindingsFile.safeParse(parsed(file, text, BINDINGS_ADVICE));
  const manifest = result.data?.metadata.annotations[MANIFEST];
  if (!result.success || manifest === undefined) throw new StateDamaged(file, BINDINGS_ADVICE);
  return { data: result.data.data, manifest };
}

function parsed(file: string, text: string, advice?: string): unknown {
  try {
    return parse(text);
  } catch {
    throw new StateDamaged(file, advice);
  }
}

function isReport(document: unknown): boolean {
  const { metadata: found } = (document ?? {}) as { metadata?: { uid?: unknown } };
  return typeof found === "object" && found !== null && found.uid === undefined;
}

const WHY = "without it every object is registered again, which a personal account refuses";

/** Thrown at startup if objects exist, but the id under which the API knows them is missing. */
class IdentityMissing extends StartError {
  constructor(file: string) {
    super(
      `${file} is missing. It is the operator's identity, to which the objects beside it belong: restore it; ${WHY}.`,
    );
    this.name = "IdentityMissing";
  }
}

/**
 * Returns the API's id of this folder. Creates the id only while no objects exist. Throws `StateDamaged` and
 * `IdentityMissing`.
 */
export async function clusterIdOf(path: string, { hasObjects }: { hasObjects: boolean }): Promise<string> {
  const known = await readId(path);
  if (known !== undefined) return known;
  if (hasObjects) throw new IdentityMissing(path);
  const clusterId = randomUUID();
  await writeAtomically(path, stringify({ clusterID: clusterId }), {
    mode: 0o644,
    folderMode: 0o755,
    replace: false,
  });
  return (await readId(path)) ?? clusterId;
}

async function readId(path: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const id = /^clusterID: ([A-Za-z0-9-]{1,64})$/m.exec(text)?.[1];
  if (id === undefined) {
    throw new StateDamaged(
      path,
      `It is the operator's identity, not an object's record: restore it and do not remove it; ${WHY}.`,
    );
  }
  return id;
}
