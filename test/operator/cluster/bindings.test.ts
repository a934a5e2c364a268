import { describe, expect, test } from "vitest";
import {
  type BindingFaults,
  type BindingsObject,
  createClusterBindings,
  createFaultReporter,
} from "../../../src/operator/cluster/bindings.ts";
import type { Reflector } from "../../../src/operator/cluster/reflector.ts";

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

describe("the namespace bindings of a cluster", () => {
  test("come from the ConfigMap deputize-tenants and from those with the label, each counted once", () => {
    const map = (name: string, data: Record<string, string>): BindingsObject => ({
      name,
      data,
      uid: name,
      namespace: "system",
    });
    const found: Record<string, BindingsObject[]> = {};
    const change: (() => void)[] = [];
    let told = 0;
    const bindings = createClusterBindings(
      (query, onChange) => {
        const selector = JSON.stringify(query);
        found[selector] = [];
        change.push(onChange);
        return { values: () => found[selector] } as Reflector<BindingsObject>;
      },
      () => {
        told += 1;
      },
    );
    const [named = "", labelled = ""] = Object.keys(found);
    expect([named, labelled]).toEqual([
      '{"fieldSelector":"metadata.name=deputize-tenants"}',
      '{"labelSelector":"deputize.io/tenants=true"}',
    ]);
    const tenants = map("deputize-tenants", { shop: "accountEmail: a@example.test", bad: "nobody" });
    expect(bindings.get("shop")).toBeUndefined();
    found[named] = [tenants];
    found[labelled] = [tenants, map("team", { bank: "accountEmail: b@example.test" })];
    change[1]?.();
    expect(told).toBe(1);
    expect(bindings.get("shop")?.account?.accountEmail).toBe("a@example.test");
    expect(bindings.get("bank")?.account?.accountEmail).toBe("b@example.test");
    expect(bindings.faults()).toEqual([
      {
        configMap: expect.objectContaining({ kind: "ConfigMap" }),
        faults: [expect.stringMatching(/^bad: /)],
      },
    ]);
  });
});
