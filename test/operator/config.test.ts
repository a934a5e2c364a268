import { describe, expect, test } from "vitest";
import { ConfigError, readOperatorConfig } from "../../src/config.ts";

const common = {
  API_URL: "https://api.example.test",
  OPERATOR_API_URL: "http://127.0.0.1:8081",
  CONSOLE_URL: "https://console.example.test",
  OPERATOR_TOKEN: "t".repeat(32),
};
const folder = { MANIFESTS_DIR: "m", STATUS_DIR: "s", SECRETS_DIR: "c" };

describe("the operator's settings", () => {
  test("select a folder if its folder settings are present, otherwise a cluster", () => {
    expect(readOperatorConfig({ ...common, ...folder })).toMatchObject(folder);
    const cluster = readOperatorConfig({ ...common, MANIFESTS_DIR: "", CLUSTER_ID: "prod-eu" });
    expect(cluster).toMatchObject({ CLUSTER_ID: "prod-eu" });
    expect(cluster).not.toHaveProperty("MANIFESTS_DIR");
  });

  test.each(Object.keys(folder))("require %s if any other folder setting is present", (name) => {
    const { [name as keyof typeof folder]: _, ...rest } = folder;
    expect(() => readOperatorConfig({ ...common, ...rest })).toThrow(ConfigError);
    expect(() => readOperatorConfig({ ...common, ...rest })).toThrow(name);
  });

  test.each([
    ["CLUSTER_ID", "a".repeat(64), "a".repeat(65)],
    ["CLUSTER_ID", "Prod-1", "prod.eu"],
    ["OPERATOR_NAMESPACE", "a".repeat(63), "a".repeat(64)],
    ["OPERATOR_NAMESPACE", "deputize-system", "Deputize"],
    ["ENDED_TTL", "720h", "30d"],
    ["ORPHAN_GRACE", "24h", "24"],
    ["ORPHAN_GRACE", "1h30m", "1d"],
    ["ORPHAN_GRACE", "0s", "-1s"],
  ])("accept %s=%s and reject %s", (name, good, bad) => {
    expect(readOperatorConfig({ ...common, [name]: good })).toMatchObject({ [name]: good });
    expect(() => readOperatorConfig({ ...common, [name]: bad })).toThrow(name);
  });

  test("list the watched namespaces without duplicates; an empty list selects all namespaces", () => {
    const read = (names: string) => readOperatorConfig({ ...common, WATCH_NAMESPACES: names });
    expect(read("shop, bank,shop")).toMatchObject({ WATCH_NAMESPACES: ["shop", "bank"] });
    expect(read("")).not.toHaveProperty("WATCH_NAMESPACES");
    const option = readOperatorConfig({ ...common, WATCH_NAMESPACES: "shop" }, { WATCH_NAMESPACES: "bank" });
    expect(option).toMatchObject({ WATCH_NAMESPACES: ["bank"] });
    const none = readOperatorConfig({ ...common, WATCH_NAMESPACES: "shop" }, { WATCH_NAMESPACES: undefined });
    expect(none).toMatchObject({ WATCH_NAMESPACES: ["shop"] });
    for (const bad of [",", "Shop", "shop;bank"]) expect(() => read(bad)).toThrow("WATCH_NAMESPACES");
  });

  test("select namespaces by labels, but not together with a list of names", () => {
    const read = (NAMESPACE_SELECTOR: string, more = {}) =>
      readOperatorConfig({ ...common, NAMESPACE_SELECTOR, ...more });
    const good = [
      "team=shop",
      "team==shop,!off",
      "a.example/b in (one, two),c!=d",
      "env notin (prod)",
      "e=",
      "on",
    ];
    for (const selector of good) expect(read(selector)).toMatchObject({ NAMESPACE_SELECTOR: selector });
    expect(read("")).not.toHaveProperty("NAMESPACE_SELECTOR");
    for (const bad of [
      "team=shop,",
      "team in shop",
      "team in ()x",
      "=shop",
      "te am",
      "a=b;c",
      `a=${"x".repeat(64)}`,
    ]) {
      expect(() => read(bad)).toThrow("NAMESPACE_SELECTOR: must be a label selector such as");
    }
    expect(() => read("team=shop", { WATCH_NAMESPACES: "shop" })).toThrow(
      "is set together with WATCH_NAMESPACES",
    );
  });

  test.each(["WATCH_NAMESPACES", "NAMESPACE_SELECTOR", "ENDED_TTL", "ORPHAN_GRACE"])(
    "reject %s for an operator over a folder",
    (name) => {
      expect(() => readOperatorConfig({ ...common, ...folder, [name]: "1h" })).toThrow(name);
      expect(readOperatorConfig({ ...common, ...folder, [name]: "" })).toMatchObject(folder);
    },
  );
});
