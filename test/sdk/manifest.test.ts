import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string) => JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8"));

test("the package for applications depends on nothing", () => {
  const { dependencies, optionalDependencies, peerDependencies, bundleDependencies } = read("package.json");
  expect({ dependencies, optionalDependencies, peerDependencies, bundleDependencies }).toEqual({});
});

test("the service's packages are its workspace's, in exact versions", () => {
  const { dependencies, private: isPrivate } = read("src/package.json");
  expect(isPrivate).toBe(true);
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining(["koa", "pg"]));
  for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
});
