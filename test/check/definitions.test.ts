import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { loadRules } from "../../src/check/check_command.ts";
import { type Fault, findFaults } from "../../src/check/find_faults.ts";
import { readWorld } from "../../src/check/world.ts";
import type { StructuralSchema } from "../../src/operator/schema/read_crds.ts";
import type { Manifest } from "../operator/schema/cases/manifests.ts";
import { schemaCases } from "../operator/schema/schema_cases.ts";

const { schemas, definitions } = await loadRules();
const now = new Date("2026-11-28T12:00:00Z");

const worldOf = (object: Manifest, former?: ReturnType<typeof readWorld>) =>
  readWorld([{ path: "a.yaml", text: stringify(object, { version: "1.1" }) }], schemas, former);

function faultsOf(object: Manifest, previous?: Manifest): Fault[] {
  const former = previous === undefined ? undefined : worldOf(previous);
  return findFaults(worldOf(object, former), { definitions, former, now });
}

const isRefusal = ({ rule }: Fault) => rule === "definition" || rule === "yaml";

/** Changes of objects. A slow test compares new objects with a real API server. */
const cases = schemaCases.filter(({ object, previous }) => previous && object.status === undefined);

describe("deputize check and the definitions", () => {
  // Another slow test sends the same cases to a real API server, and expects the same results.
  test.each(cases)("$name", ({ object, previous, accepted }) => {
    expect(faultsOf(object, previous).filter(isRefusal).length === 0).toBe(accepted);
  });

  test("have a case that breaks each rule", () => {
    const broken = new Set(
      schemaCases
        .filter(({ accepted }) => !accepted)
        .flatMap(({ object, previous }) =>
          (schemas.validate(object, previous).violations ?? []).map(({ path, message }) =>
            ruleText(object.kind, path, message),
          ),
        ),
    );
    const rules = definitions.flatMap(({ kind, schema }) => rulesOf(kind, schema, ""));
    expect(rules.length).toBeGreaterThan(60);
    expect(rules.filter((rule) => !broken.has(rule))).toEqual([]);
  });
});

function ruleText(kind: string, path: string, message: string): string {
  return `${kind} ${path.replaceAll(/\[\d+\]/g, "[]")}: ${message}`;
}

function rulesOf(kind: string, schema: StructuralSchema, path: string): string[] {
  const own = (schema["x-kubernetes-validations"] ?? []).map(({ rule, message = rule, fieldPath = "" }) =>
    ruleText(kind, `${path}${fieldPath}`.replace(/^\./, ""), message),
  );
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, child]) =>
    rulesOf(kind, child, path === "" ? name : `${path}.${name}`),
  );
  return [...own, ...members, ...(schema.items ? rulesOf(kind, schema.items, `${path}[]`) : [])];
}
