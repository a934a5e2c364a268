import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import type { Call } from "../../../keyvault/http/routes.ts";
import { contextOf, createRoutes, pathOf } from "../../../keyvault/http/routes.ts";

const call = (method: "GET" | "POST", path: string): Call => ({
  method,
  path,
  roles: [],
  handle: async () => ({}),
});
const list = call("GET", "/v1/keys");
const create = call("POST", "/v1/keys");
const get = call("GET", "/v1/keys/:id");
const sign = call("POST", "/v1/keys/:id/sign/challenge");
const find = createRoutes([list, create, get, sign]);
const requestTo = (url: string, headers: Record<string, string | string[]> = {}) =>
  ({ url, headers }) as unknown as IncomingMessage;

test("a route matches only its own method and its complete path", () => {
  expect(find("GET", "/v1/keys")?.call).toBe(list);
  expect(find("HEAD", "/v1/keys")?.call).toBe(list);
  expect(find("POST", "/v1/keys")?.call).toBe(create);
  expect(find("GET", "/v1/keys/abc")).toEqual({ call: get, params: { id: "abc" } });
  expect(find("POST", "/v1/keys/abc/sign/challenge")).toEqual({ call: sign, params: { id: "abc" } });
});

test.each([
  ["another method", "DELETE", "/v1/keys"],
  ["no method", undefined, "/v1/keys"],
  ["a method of another path", "POST", "/v1/keys/abc"],
  ["the start of a path", "GET", "/v1"],
  ["a longer path", "POST", "/v1/keys/abc/sign/challenge/more"],
  ["a trailing slash", "GET", "/v1/keys/"],
  ["a double slash", "GET", "//v1/keys"],
  ["a different letter case", "GET", "/v1/Keys"],
  ["an encoded fixed segment", "GET", "/v1/%6beys"],
  ["an empty named segment", "POST", "/v1/keys//sign/challenge"],
])("no route matches %s", (_, method, path) => {
  expect(find(method, path)).toBeUndefined();
});

test("a named segment is percent-decoded, or kept as it is if it cannot be decoded", () => {
  expect(find("GET", "/v1/keys/a%2Fb%20c")?.params).toEqual({ id: "a/b c" });
  expect(find("GET", "/v1/keys/%zz")?.params).toEqual({ id: "%zz" });
});

test("pathOf omits the query, and contextOf returns the query's values by name", () => {
  const request = requestTo("/v1/keys?tenant=a%20b&limit=5&limit=6");
  expect(pathOf(request)).toBe("/v1/keys");
  expect({ ...contextOf(request, {}, () => {}).query }).toEqual({ tenant: "a b", limit: ["5", "6"] });
  expect(pathOf(requestTo("/v1/keys"))).toBe("/v1/keys");
  expect({ ...contextOf(requestTo("/v1/keys"), {}, () => {}).query }).toEqual({});
});

test("contextOf returns a header's value, or an empty string if the header is missing", () => {
  const { get: header } = contextOf(requestTo("/", { "idempotency-key": "name" }), {}, () => {});
  expect(header("idempotency-key")).toBe("name");
  expect(header("x-other")).toBe("");
});
