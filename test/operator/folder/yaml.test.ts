import { describe, expect, test } from "vitest";
import { readYaml } from "../../../src/operator/folder/documents.ts";
import { stateText } from "../../../src/operator/folder/state_file.ts";
import type { AnyObject } from "../../../src/operator/kinds.ts";
import { manifestOf, yamlCases } from "./yaml_cases.ts";

describe("the YAML reader", () => {
  test.each(yamlCases)("$name", (yamlCase) => {
    const { values = [], fault } = readYaml(manifestOf(yamlCase, "thing"));
    if (yamlCase.spec === undefined) {
      expect(fault).toMatch(/^(line [5-8] )?has /);
    } else {
      expect(values).toMatchObject([{ spec: yamlCase.spec }]);
    }
    expect((values[0] as { spec?: unknown } | undefined)?.spec).toEqual(yamlCase.spec);
  });

  test("accepts a state file as a manifest", () => {
    const spec = { names: ["yes", "0100", "1_000", "0b11", "09:00", "~", "<<"], y: { on: 1 } };
    const metadata = { name: "a", namespace: "b", uid: "c", generation: 1, finalizers: [] };
    const object = { apiVersion: "v1", kind: "Platform", metadata, spec, status: {} } as unknown as AnyObject;
    expect(readYaml(stateText({ object, manifest: "a.yaml" })).values).toMatchObject([{ spec }]);
  });

  test("returns each document of a file, including empty ones", () => {
    expect(readYaml("a: 1\n--- # next\n---\nb: 010\n")).toEqual({ values: [{ a: 1 }, null, { b: 8 }] });
    expect(readYaml("")).toEqual({ values: [] });
  });

  test("refuses a YAML directive, and reports the line of a fault", () => {
    expect(readYaml("%YAML 1.2\n---\na: 1\n").fault).toBe("line 1 has a directive: leave it out");
    expect(readYaml("a: 1\nb:\n  yes: 2\n").fault).toBe(
      "line 3 has the key yes, which is not text: put it in quotes",
    );
    expect(readYaml("a: 1\na: 2\n").fault).toMatch(/unique/);
  });
});
