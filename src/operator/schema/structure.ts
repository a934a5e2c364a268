import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import formats from "ajv-formats";
import { isQualifiedName, metadataSchema, type StructuralSchema } from "./read_crds.ts";

/** One violation of a schema: the path of the field (`spec.scopes[0]`) and a human-readable message. */
export type SchemaViolation = { path: string; message: string };

type JsonSchema = { [keyword: string]: unknown };

const keptKeywords = [
  "type",
  "required",
  "enum",
  "pattern",
  "minLength",
  "maxLength",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "maxProperties",
];

/** Human-readable messages for some patterns of the definitions. `part` is a substring of the pattern. */
const meanings: readonly [part: string, meaning: string][] = [
  [":[A-Za-z0-9_.:/*-]+", "a scope is domain:action or custom:…"],
  ["T([01][0-9]|2[0-3])", "must be a time such as 2030-01-31T12:00:00Z"],
];

/** Checks an object against a structural schema, as the API server does with strict field validation. */
export type StructureCheck = (object: unknown) => SchemaViolation[];

/** Compiles the check for complete objects of a kind. Unknown fields are violations, also in the metadata. */
export function structureCheck(schema: StructuralSchema): StructureCheck {
  const ajv = new Ajv({ allErrors: true, strict: true, strictRequired: false, unicodeRegExp: true });
  formats.default(ajv, ["date-time"]);
  ajv.addFormat("qualified-name", isQualifiedName);
  ajv.addKeyword({
    keyword: "uniqueBy",
    type: "array",
    schemaType: "array",
    validate: (keys: string[], items: unknown[]) => isUniqueBy(keys, items),
  });
  const validate = ajv.compile({ ...toJsonSchema(schema), properties: rootProperties(schema) });
  return (object) => violationsOf(validate, object);
}

function rootProperties(schema: StructuralSchema): JsonSchema {
  const properties = Object.entries(schema.properties ?? {}).map(([name, node]) => [
    name,
    toJsonSchema(node),
  ]);
  return { ...Object.fromEntries(properties), metadata: metadataSchema };
}

function toJsonSchema(node: StructuralSchema): JsonSchema {
  const schema: JsonSchema = {};
  for (const keyword of keptKeywords) if (node[keyword] !== undefined) schema[keyword] = node[keyword];
  if (node.format === "date-time") schema.format = node.format;
  if (node.properties !== undefined) {
    schema.additionalProperties = false;
    schema.properties = Object.fromEntries(
      Object.entries(node.properties).map(([name, child]) => [name, toJsonSchema(child)]),
    );
  }
  const { additionalProperties } = node;
  if (additionalProperties !== undefined) schema.additionalProperties = toJsonSchema(additionalProperties);
  if (node.items !== undefined) schema.items = toJsonSchema(node.items);
  if (node["x-kubernetes-list-type"] === "set") schema.uniqueItems = true;
  if (node["x-kubernetes-list-type"] === "map") schema.uniqueBy = node["x-kubernetes-list-map-keys"];
  return schema;
}

function isUniqueBy(keys: string[], items: unknown[]): boolean {
  const seen = items.map((item) => JSON.stringify(keys.map((key) => (item as JsonSchema | null)?.[key])));
  return new Set(seen).size === items.length;
}

function violationsOf(validate: ValidateFunction, object: unknown): SchemaViolation[] {
  if (validate(object)) return [];
  return (validate.errors ?? []).filter((error) => error.keyword !== "propertyNames").map(violationOf);
}

function violationOf(error: ErrorObject): SchemaViolation {
  const path = dotted(error.instancePath);
  switch (error.keyword) {
    case "additionalProperties":
      return { path: joined(path, String(error.params.additionalProperty)), message: "unknown field" };
    case "required":
      return { path: joined(path, String(error.params.missingProperty)), message: "is required" };
    case "enum":
      return { path, message: `must be one of ${(error.params.allowedValues as unknown[]).join(", ")}` };
    case "uniqueItems":
    case "uniqueBy":
      return { path, message: "must not list anything twice" };
    case "pattern":
      return { path, message: meaningOf(String(error.params.pattern)) ?? error.message ?? "is wrong" };
    default:
      return { path, message: error.message ?? "is wrong" };
  }
}

function meaningOf(pattern: string): string | undefined {
  return meanings.find(([part]) => pattern.includes(part))?.[1];
}

function dotted(pointer: string): string {
  const segments = pointer.split("/").slice(1);
  return segments
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((path, segment) => (/^\d+$/.test(segment) ? `${path}[${segment}]` : joined(path, segment)), "");
}

function joined(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}
