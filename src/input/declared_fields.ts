import { type ZodType, z } from "zod";
import { oneLine } from "./schemas.ts";

/**
 * Delegation fields that pass unchanged from the Kubernetes object to the responses that users see. Each key
 * is the name in calls and responses. `spec` is the name in the object, and `column` the column of
 * `delegation_requests`. `input` is the schema of the operator's call, `answer` that of responses.
 */
export const declaredFields = {
  requested_by: {
    spec: "requestedBy",
    column: "requested_user",
    input: oneLine(253)
      .nullish()
      .describe("The user in the cluster who makes the request; shown to people, never used for a decision"),
    answer: z
      .string()
      .nullable()
      .describe("The user in the cluster who made the request, according to the object"),
  },
} as const satisfies Record<string, { spec: string; column: string; input: ZodType; answer: ZodType }>;

type Fields = typeof declaredFields;
type Name = keyof Fields;

/** The fields, keyed by their names in calls and responses. A field that the object omits is `null`. */
export type DeclaredFields = { [N in Name]: z.infer<Fields[N]["answer"]> };

/** The fields, keyed by their names in the object's `spec`. */
export type DeclaredSpec = {
  [N in Name as Fields[N]["spec"]]?: NonNullable<z.infer<Fields[N]["input"]>>;
};

/** The fields, keyed by their column names. */
export type DeclaredColumns = { [N in Name as Fields[N]["column"]]: z.infer<Fields[N]["answer"]> };

type DeclaredInput = { [N in Name]: Fields[N]["input"] };
type DeclaredAnswer = { [N in Name]: Fields[N]["answer"] };

/** The fields of the operator's call, as a zod shape. */
export const declaredInput = mapFields(({ input }) => input) as DeclaredInput;

/** The fields of responses, as a zod shape. */
export const declaredAnswer = mapFields(({ answer }) => answer) as DeclaredAnswer;

/** Converts an object's `spec` to fields of the operator's call. Omits absent fields. */
export function readSpec(spec: DeclaredSpec): Partial<DeclaredFields> {
  const read = Object.entries(mapFields(({ spec: name }) => spec[name]));
  return Object.fromEntries(read.filter(([, value]) => value !== undefined));
}

/** Reads the fields from a call's body. */
export function readDeclared(body: { [N in Name]?: DeclaredFields[N] | undefined }): DeclaredFields {
  return mapFields((_, name) => body[name] ?? null) as DeclaredFields;
}

/** Returns the column values of the fields. Without a Kubernetes object, each value is `null`. */
export function columnsOf(fields: DeclaredFields | undefined): DeclaredColumns {
  const columns = Object.entries(declaredFields) as [Name, Fields[Name]][];
  return Object.fromEntries(
    columns.map(([name, { column }]) => [column, fields?.[name] ?? null]),
  ) as DeclaredColumns;
}

/** Returns the names of the columns to select, qualified by a table alias. */
export function selectedColumns(alias: string): string[] {
  return Object.values(declaredFields).map(({ column }) => `${alias}.${column}`);
}

/** Reads the fields from a database row. */
export function showDeclared(row: DeclaredColumns): DeclaredFields {
  return mapFields(({ column }) => row[column]) as DeclaredFields;
}

function mapFields(value: (field: Fields[Name], name: Name) => unknown): { [N in Name]: unknown } {
  const entries = Object.entries(declaredFields) as [Name, Fields[Name]][];
  return Object.fromEntries(entries.map(([name, field]) => [name, value(field, name)])) as {
    [N in Name]: unknown;
  };
}
