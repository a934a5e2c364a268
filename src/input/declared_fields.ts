import { type ZodType, z } from "zod";
import { oneLine } from "./schemas.ts";

/**
 * Fields of a Delegation that pass unchanged from the Kubernetes object to the answers that people see. The
 * key is the name in calls and answers, `spec` the name in the object, and `column` the one in the table
 * `delegation_requests`. `input` is the form that the operator's call takes, and `answer` the form that
 * answers show.
 */
export const declaredFields = {
  requested_by: {
    spec: "requestedBy",
    column: "requested_user",
    input: oneLine(253)
      .nullish()
      .describe("The cluster's user who asks; shown to people, and nothing is decided by it"),
    answer: z.string().nullable().describe("The cluster's user who asked, as the object says"),
  },
} as const satisfies Record<string, { spec: string; column: string; input: ZodType; answer: ZodType }>;

type Fields = typeof declaredFields;
type Name = keyof Fields;

/** The fields by their names in calls and answers; `null` where the object leaves one out. */
export type DeclaredFields = { [N in Name]: z.infer<Fields[N]["answer"]> };

/** The fields by their names in the object's `spec`. */
export type DeclaredSpec = {
  [N in Name as Fields[N]["spec"]]?: NonNullable<z.infer<Fields[N]["input"]>>;
};

/** The fields by their columns. */
export type DeclaredColumns = { [N in Name as Fields[N]["column"]]: z.infer<Fields[N]["answer"]> };

type DeclaredInput = { [N in Name]: Fields[N]["input"] };
type DeclaredAnswer = { [N in Name]: Fields[N]["answer"] };

/** The members of the operator's call, as a zod shape. */
export const declaredInput = mapFields(({ input }) => input) as DeclaredInput;

/** The members of answers, as a zod shape. */
export const declaredAnswer = mapFields(({ answer }) => answer) as DeclaredAnswer;

/** The members of the operator's call for an object. A field that the object leaves out is left out. */
export function readSpec(spec: DeclaredSpec): Partial<DeclaredFields> {
  const read = Object.entries(mapFields(({ spec: name }) => spec[name]));
  return Object.fromEntries(read.filter(([, value]) => value !== undefined));
}

/** The fields of a call's body. */
export function readDeclared(body: { [N in Name]?: DeclaredFields[N] | undefined }): DeclaredFields {
  return mapFields((_, name) => body[name] ?? null) as DeclaredFields;
}

/** The columns of the fields. A request that no object declares has `null` in each. */
export function columnsOf(fields: DeclaredFields | undefined): DeclaredColumns {
  const columns = Object.entries(declaredFields) as [Name, Fields[Name]][];
  return Object.fromEntries(
    columns.map(([name, { column }]) => [column, fields?.[name] ?? null]),
  ) as DeclaredColumns;
}

/** The columns of a table that goes by this alias, to select. */
export function selectedColumns(alias: string): string[] {
  return Object.values(declaredFields).map(({ column }) => `${alias}.${column}`);
}

/** The fields of a row. */
export function showDeclared(row: DeclaredColumns): DeclaredFields {
  return mapFields(({ column }) => row[column]) as DeclaredFields;
}

function mapFields(value: (field: Fields[Name], name: Name) => unknown): { [N in Name]: unknown } {
  const entries = Object.entries(declaredFields) as [Name, Fields[Name]][];
  return Object.fromEntries(entries.map(([name, field]) => [name, value(field, name)])) as {
    [N in Name]: unknown;
  };
}
