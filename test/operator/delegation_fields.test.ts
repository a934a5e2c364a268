import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { declaredFields } from "../../src/input/declared_fields.ts";
import { readDefinitions, type StructuralSchema } from "../../src/operator/schema/read_crds.ts";

/** Fields in the `spec` of a Delegation that the operator or the API reads separately. */
const READ_ONE_BY_ONE = [
  ...["platformRef", "agentRef", "scopes", "ttl", "expiresAt", "constraints", "purpose"],
  ...["revoked", "revokeReason", "suspend"],
];

const documentation = readFileSync(new URL("../../docs/operator.md", import.meta.url), "utf8");

let definitions: Awaited<ReturnType<typeof readDefinitions>>;
beforeAll(async () => {
  definitions = await readDefinitions();
});

const propertiesOf = (schema: StructuralSchema | undefined) => Object.keys(schema?.properties ?? {});

test("src/input/declared_fields.ts lists every field of a Delegation except those that are read separately", () => {
  const { properties } = definitions.find(({ kind }) => kind === "Delegation")?.schema ?? {};
  const passed = Object.values(declaredFields).map(({ spec }) => spec);
  expect(propertiesOf(properties?.spec).toSorted()).toEqual([...READ_ONE_BY_ONE, ...passed].toSorted());
});

test("the rules of Delegation make every declared field immutable", () => {
  const text = readFileSync(new URL("../../crds/delegations.yaml", import.meta.url), "utf8");
  const changeable = Object.values(declaredFields).filter(
    ({ spec }) => !text.includes(`${spec} is immutable`),
  );
  expect(changeable).toEqual([]);
});

test("the migrations create a column of delegation_requests for every declared field", async () => {
  const { migrations } = await import("../../src/db/migrate.ts");
  const made = migrations.map(({ sql }) => sql).join("\n");
  const without = Object.values(declaredFields).filter(
    ({ column }) => !made.includes(`alter table delegation_requests add column ${column} `),
  );
  expect(without).toEqual([]);
});

describe("docs/operator.md", () => {
  test.each(["Platform", "Agent", "Delegation"])("names every field of a %s", (kind) => {
    const { properties } = definitions.find((definition) => definition.kind === kind)?.schema ?? {};
    const fields = [...propertiesOf(properties?.spec), ...propertiesOf(properties?.status)];
    const code = documentation.match(/`[^`]+`/g)?.join(" ") ?? "";
    expect(fields.filter((field) => !new RegExp(`\\b${field}\\b`).test(code))).toEqual([]);
  });
});
