import { describe, expect, test } from "vitest";
import { type BindingFaults, createFaultReporter } from "../../../src/operator/cluster/bindings.ts";

const found = (name: string, ...faults: string[]): BindingFaults => ({
  configMap: { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "system", uid: name } },
  faults,
});

describe("faults of ConfigMaps", () => {
  test("appear in one Event each, which is not repeated while the fault remains the same", () => {
    const told: string[] = [];
    const { report } = createFaultReporter(({ metadata }, message) =>
      told.push(`${metadata.name}: ${message}`),
    );
    report([found("a", "shop: bad", "bank: worse"), found("b", "x: bad")]);
    expect(told).toEqual(["a: shop: bad; bank: worse", "b: x: bad"]);
    report([found("a", "shop: bad", "bank: worse"), found("b", "x: bad")]);
    expect(told).toHaveLength(2);
    report([found("a", "shop: bad")]);
    expect(told.slice(2)).toEqual(["a: shop: bad"]);
    report([]);
    report([found("b", "x: bad")]);
    expect(told.slice(3)).toEqual(["b: x: bad"]);
  });
});
