import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string) => JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), "utf8"));

test("the package for applications has no dependencies", () => {
  const { dependencies, optionalDependencies, peerDependencies, bundleDependencies } = read("package.json");
  expect({ dependencies, optionalDependencies, peerDependencies, bundleDependencies }).toEqual({});
});

test.each([
  ["src", ["koa", "pg"]],
  ["keyvault", ["pg", "pkcs11js"]],
])("the packages of %s are in its workspace, with exact versions", (folder, some) => {
  const { dependencies, private: isPrivate } = read(`${folder}/package.json`);
  expect(isPrivate).toBe(true);
  expect(Object.keys(dependencies)).toEqual(expect.arrayContaining(some));
  for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
});
