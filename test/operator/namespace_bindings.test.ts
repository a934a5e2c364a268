import { describe, expect, test } from "vitest";
import { bindingsOf } from "../../src/operator/namespace_bindings.ts";

const parse = (data: Record<string, string>) => bindingsOf([{ name: "deputize-tenants", data }]);

describe("namespace bindings", () => {
  test("bind each namespace to an account, with an optional ceiling and approvers", () => {
    const bindings = parse({
      a: "accountEmail: a@example.test",
      b: "accountEmail: b@example.test\nceiling: [data:read]\napprovers: [jane]",
    });
    expect(bindings.get("a")).toEqual({
      source: "deputize-tenants",
      account: { accountEmail: "a@example.test" },
    });
    expect(bindings.get("b")).toEqual({
      source: "deputize-tenants",
      account: { accountEmail: "b@example.test", ceiling: ["data:read"], approvers: ["jane"] },
    });
    expect(bindings.get("c")).toBeUndefined();
  });

  test("accept every form of scope that a Platform may have", () => {
    const ceiling = ["data:read", "comms:*", "custom:orders:refund", "custom:orders:*"];
    const { account } =
      parse({ a: JSON.stringify({ accountEmail: "a@example.test", ceiling }) }).get("a") ?? {};
    expect(account?.ceiling).toEqual(ceiling);
  });

  test.each([
    ["a value that is not YAML", "accountEmail: [", "not YAML"],
    ["a string as its value", "owner@example.test", "expected object"],
    ["no value", "", "expected object"],
    ["no account", "ceiling: [data:read]", "accountEmail"],
    ["an invalid address", "accountEmail: nobody", "accountEmail"],
    ["an unknown field", "accountEmail: a@example.test\ncelling: [data:read]", "celling"],
    ["an empty ceiling", "accountEmail: a@example.test\nceiling: []", "ceiling"],
    ...["data:raed", "custom:refund", "custom:*", "custom:a:b:c:d:e", "custom:*:refund", "urn:x:y", ""].map(
      (scope) => [
        `the ceiling ${JSON.stringify(scope)}`,
        `accountEmail: a@example.test\nceiling: [data:read, "${scope}"]`,
        "ceiling.1: is neither in the vocabulary nor custom:<area>:<action>",
      ],
    ),
  ])("ignore an entry with %s, and keep the others", (_, text, fault) => {
    const bindings = parse({ bad: text, good: "accountEmail: a@example.test" });
    expect(bindings.get("bad")?.account).toBeUndefined();
    expect(bindings.get("bad")?.fault).toContain(fault);
    expect(bindings.get("good")?.account).toBeDefined();
  });

  test("may come from several ConfigMaps, but do not bind a namespace that is in two of them", () => {
    const first = {
      name: "first",
      data: { a: "accountEmail: a@example.test", b: "accountEmail: b@example.test" },
    };
    const second = { name: "second", data: { b: "accountEmail: b@example.test", c: "nothing" } };
    const bindings = bindingsOf([first, second]);
    expect(bindings.get("a")).toEqual({ source: "first", account: { accountEmail: "a@example.test" } });
    expect(bindings.get("b")).toEqual({
      source: "first and second",
      fault: "the namespace is in more than one ConfigMap",
    });
    expect(bindings.get("c")).toMatchObject({ source: "second", fault: expect.stringContaining("expected") });
    expect(bindingsOf([second, first]).get("b")?.account).toBeUndefined();
  });
});
