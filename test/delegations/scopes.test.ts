import { expect, test } from "vitest";
import { isValidScope } from "../../src/protocol/documents/scopes.ts";
import { runningApi } from "../support/api.ts";
import { approve, createAgent, errorCode, registerPlatform, selfRequest } from "../support/platform_world.ts";

const api = runningApi();

test("the scope vocabulary is public: 54 scopes, 14 wildcards, and what each of them grants", async () => {
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
  expect(Object.values(words).filter((text) => !/^[A-Z][^*_]*[a-z]$/.test(text))).toEqual([]);
  expect(scopes).toEqual(expect.arrayContaining(sensitive));
  expect(wildcards["data:*"]).toEqual(["data:read", "data:share"]);
  // No wildcard grants a sensitive scope.
  expect(
    Object.values(wildcards)
      .flat()
      .filter((scope) => sensitive.includes(scope)),
  ).toEqual([]);
});

async function asked(scope: string[]) {
  const person = await api.person();
  const platform = await registerPlatform(person);
  await createAgent(api.client(), platform);
  const requestId = await selfRequest(person, platform.connectionId, { requested_scope: scope });
  return { person, requestId };
}

test("an approval above the account's ceiling fails without a call to the vault, and the error contains the scope", async () => {
  const { person, requestId } = await asked(["data:read", "payments:send"]);
  const narrow = { root_ceiling: ["data:*", "custom:*"] };
  await api.db("accounts").where({ account_id: person.accountId }).update(narrow);
  const before = api.vault.calls.length;
  const refused = await approve(person, requestId, ["data:read", "payments:send"]);
  expect(errorCode(refused)).toBe("ceiling_exceeded");
  expect(refused.status).toBe(400);
  expect(JSON.stringify(refused.body)).toContain("payments:send");
  expect(api.vault.calls.slice(before)).toEqual([]);
  expect((await approve(person, requestId, ["data:read"])).status).toBe(200);
});

test("custom:* in the account's ceiling permits every custom scope", async () => {
  const { person, requestId } = await asked(["custom:orders:refund"]);
  await api
    .db("accounts")
    .where({ account_id: person.accountId })
    .update({ root_ceiling: ["custom:*"] });
  expect((await approve(person, requestId, ["custom:orders:refund"])).status).toBe(200);
});
