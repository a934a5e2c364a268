import { expect, test } from "vitest";
import { isValidScope } from "../../src/protocol/documents/scopes.ts";
import { platformApi } from "../support/platform_world.ts";

const api = platformApi();

test("anybody reads the vocabulary: 54 scopes, 14 wildcards, and what each of them grants", async () => {
  const { status, body } = await api.client().get("/v1/service/scopes");
  expect(status).toBe(200);
  const { scopes, sensitive, wildcards, words, version } = body as {
    scopes: string[];
    sensitive: string[];
    wildcards: Record<string, string[]>;
    words: Record<string, string>;
    version: number;
  };
  expect([scopes.length, Object.keys(wildcards).length, version]).toEqual([54, 14, 1]);
  expect([...scopes, ...Object.keys(wildcards)].every(isValidScope)).toBe(true);
  expect(Object.keys(words).sort()).toEqual([...scopes, ...Object.keys(wildcards)].sort());
  expect(Object.values(words).filter((said) => !/^[A-Z][^*_]*[a-z]$/.test(said))).toEqual([]);
  expect(scopes).toEqual(expect.arrayContaining(sensitive));
  expect(wildcards["data:*"]).toEqual(["data:read", "data:share"]);
  // No wildcard grants what is sensitive.
  expect(
    Object.values(wildcards)
      .flat()
      .filter((scope) => sensitive.includes(scope)),
  ).toEqual([]);
});
