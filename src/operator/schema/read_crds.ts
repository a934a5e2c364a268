import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";

/** A CEL rule of a schema node. `fieldPath` is the field below the node that an error names, like `.ttl`. */
export type CelRule = { rule: string; message?: string; fieldPath?: string };

/** The features of structural OpenAPI schemas that the definitions in `crds/` use. */
export type StructuralSchema = {
  type: "object" | "array" | "string" | "number" | "integer" | "boolean";
  properties?: Record<string, StructuralSchema>;
  additionalProperties?: StructuralSchema;
  items?: StructuralSchema;
  required?: string[];
  format?: string;
  "x-kubernetes-list-type"?: "set" | "map" | "atomic";
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-validations"?: CelRule[];
  [keyword: string]: unknown;
};

/** One version of one kind, as a CustomResourceDefinition declares it. */
export type Definition = { apiVersion: string; kind: string; schema: StructuralSchema };

const file = z.object({
  kind: z.literal("CustomResourceDefinition"),
  spec: z.object({
    group: z.string(),
    names: z.object({ kind: z.string() }),
    versions: z.array(
      z.object({
        name: z.string(),
        schema: z.object({ openAPIV3Schema: z.custom<StructuralSchema>((value) => value instanceof Object) }),
      }),
    ),
  }),
});

/** The repository's folder with the CustomResourceDefinitions. */
export const definitionsFolder = join(import.meta.dirname, "../../../crds");

/** Reads every version of every kind in a folder's definitions. Throws if the folder is unreadable. */
export async function readDefinitions(folder: string = definitionsFolder): Promise<Definition[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".yaml")).sort();
  const documents = await Promise.all(
    names.map(async (name) => parseAllDocuments(await readFile(join(folder, name), "utf8"))),
  );
  return documents.flat().flatMap((document) => {
    const definition = file.safeParse(document.toJS());
    if (!definition.success) return [];
    const { group, names: kindNames, versions } = definition.data.spec;
    return versions.map((version) => ({
      apiVersion: `${group}/${version.name}`,
      kind: kindNames.kind,
      schema: version.schema.openAPIV3Schema,
    }));
  });
}

/**
 * Schema of object metadata as the API server accepts it, but without unknown fields. Allows the fields that
 * only the server sets, because exported objects contain them. In a manifest, these fields have no effect.
 */
export const metadataSchema = {
  type: "object",
  required: ["name"],
  additionalProperties: false,
  properties: {
    name: {
      type: "string",
      maxLength: 253,
      pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    },
    namespace: { type: "string", maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
    labels: {
      type: "object",
      propertyNames: { format: "qualified-name" },
      additionalProperties: {
        type: "string",
        maxLength: 63,
        pattern: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
      },
    },
    annotations: {
      type: "object",
      propertyNames: { format: "qualified-name" },
      additionalProperties: { type: "string" },
    },
    uid: { type: "string" },
    resourceVersion: { type: "string" },
    generation: { type: "integer" },
    creationTimestamp: { type: "string" },
    deletionTimestamp: { type: "string" },
    deletionGracePeriodSeconds: { type: "integer" },
    selfLink: { type: "string" },
    finalizers: { type: "array", items: { type: "string" } },
    ownerReferences: { type: "array", items: { type: "object" } },
    managedFields: { type: "array", items: { type: "object" } },
  },
} as const;

const name = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const prefix = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * Returns whether a string may be the key of a label or an annotation: `[prefix/]name`, with at most 253
 * characters for the prefix and 63 for the name.
 */
export function isQualifiedName(text: string): boolean {
  const parts = text.split("/");
  if (parts.length > 2) return false;
  const last = parts.at(-1) ?? "";
  if (last.length > 63 || !name.test(last)) return false;
  const [first] = parts;
  return parts.length === 1 || (first !== undefined && first.length <= 253 && prefix.test(first));
}
