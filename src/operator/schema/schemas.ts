import { rulesCheck } from "./cel_rules.ts";
import { type Definition, readDefinitions, type StructuralSchema } from "./read_crds.ts";
import { type SchemaViolation, structureCheck } from "./structure.ts";

export type { SchemaViolation as Fault };

/** The object as the API server would store it, or its violations. */
type Validation = { object: object; violations?: never } | { object?: never; violations: SchemaViolation[] };

/** The kinds in `crds/`, with all checks of the API server. */
export type Schemas = {
  /** Validates an object as the API server would. Without `previous`, the object counts as new. */
  validate(object: unknown, previous?: object): Validation;
};

/** Compiles the CustomResourceDefinitions of a folder, by default the repository's `crds/`. */
export async function loadSchemas(folder?: string): Promise<Schemas> {
  const definitions = await readDefinitions(folder);
  const validators = new Map(definitions.map((definition) => [idOf(definition), validatorOf(definition)]));
  return {
    validate(object, previous) {
      const { apiVersion, kind } = (object ?? {}) as { apiVersion?: unknown; kind?: unknown };
      const validate = validators.get(idOf({ apiVersion, kind }));
      if (validate !== undefined) return validate(object, previous);
      return {
        violations: [{ path: "kind", message: `${String(apiVersion)} ${String(kind)} is not a known kind` }],
      };
    },
  };
}

function validatorOf({ schema }: Definition): Schemas["validate"] {
  const structureViolations = structureCheck(schema);
  const brokenRules = rulesCheck(schema);
  return (given, previous) => {
    const object = withoutNulls(schema, given) as object;
    const structure = structureViolations(object);
    const violations = structure.length > 0 ? structure : brokenRules(object, previous);
    return violations.length > 0 ? { violations: violations } : { object };
  };
}

function idOf({ apiVersion, kind }: { apiVersion: unknown; kind: unknown }): string {
  return `${String(apiVersion)} ${String(kind)}`;
}

/** Removes null members, as the API server does, except from lists and unknown fields. */
function withoutNulls(schema: StructuralSchema, value: unknown): unknown {
  const { items, properties } = schema;
  if (Array.isArray(value)) {
    return items === undefined ? value : value.map((item) => withoutNulls(items, item));
  }
  if (typeof value !== "object" || value === null) return value;
  if (properties === undefined) return value;
  const kept = Object.entries(value).filter(
    ([name, member]) => member !== null || !Object.hasOwn(properties, name),
  );
  return Object.fromEntries(
    kept.map(([name, member]) => {
      const child = properties[name];
      return [name, child === undefined ? member : withoutNulls(child, member)];
    }),
  );
}
