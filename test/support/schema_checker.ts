import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { publishedSchemas } from "./schema_files.ts";

/** A record in the form in which a consumer reads it. */
export type SeenRecord = { key: string; value: string; headers: Record<string, string | undefined> };

/** Checks records with only the schema files of `docs/events/`, as a program in any language can. */
export type SchemaChecker = {
  /** Returns the differences between a record and the schema of its event type. */
  faultsOf(record: SeenRecord): string[];
  /** Returns the differences between the body of a webhook and the schema of its event type. */
  bodyFaultsOf(body: string): string[];
  /** Checks any value against a schema file, or against one definition in the file. */
  faultsBy(name: string, value: unknown, part?: string): string[];
};

export async function schemaChecker(): Promise<SchemaChecker> {
  const ajv = addFormats.default(new Ajv2020({ allErrors: true, allowUnionTypes: true }));
  const files = await publishedSchemas();
  const ids = new Map(
    Object.entries(files).map(([name, text]) => {
      const schema = JSON.parse(text) as { $id: string };
      ajv.addSchema(schema);
      return [name, schema.$id];
    }),
  );

  function faultsBy(name: string, value: unknown, part = ""): string[] {
    const check = ajv.getSchema(`${ids.get(name)}${part}`);
    if (!ids.has(name) || check === undefined) return [`there is no ${name}`];
    return check(value) ? [] : [`${name}${part}: ${ajv.errorsText(check.errors)}`];
  }

  return {
    faultsBy,
    faultsOf({ key, value, headers }) {
      const dead = headers.deputize_consumer !== undefined;
      const name = `${dead ? "dead_letter" : headers.ce_type}.schema.json`;
      return [
        ...(key === (dead ? headers.ce_id : headers.ce_subject) ? [] : [`the key is ${key}`]),
        ...faultsBy(name, headers, "#/$defs/headers"),
        ...(dead ? [] : faultsBy(name, JSON.parse(value))),
      ];
    },
    bodyFaultsOf(body) {
      const value = JSON.parse(body);
      const webhookSchema = `${value.event}.webhook.schema.json`;
      return faultsBy(ids.has(webhookSchema) ? webhookSchema : `${value.event}.schema.json`, value);
    },
  };
}
