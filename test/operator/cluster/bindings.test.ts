import { describe, expect, test } from "vitest";
import { type BindingFaults, createFaultTeller } from "../../../src/operator/cluster/bindings.ts";

const found = (name: string, ...faults: string[]): BindingFaults => ({
  configMap: { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "system", uid: name } },
  faults,
});

describe("the faults of ConfigMaps", () => {
  test("appear in one Event each while they remain the same", () => {
    const told: string[] = [];
    const { tell } = createFaultTeller(({ metadata }, message) => told.push(`${metadata.name}: ${message}`));
    tell([found("a", "shop: bad", "bank: worse"), found("b", "x: bad")]);
    expect(told).toEqual(["a: shop: bad; bank: worse", "b: x: bad"]);
    tell([found("a", "shop: bad", "bank: worse"), found("b", "x: bad")]);
    expect(told).toHaveLength(2);
    tell([found("a", "shop: bad")]);
    expect(told.slice(2)).toEqual(["a: shop: bad"]);
    tell([]);
    tell([found("b", "x: bad")]);
    expect(told.slice(3)).toEqual(["b: x: bad"]);
  });
});
