import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiConfig, ConfigError, readApiConfig } from "../../src/config.ts";
import {
  approve,
  createAgent,
  errorCode,
  type PlatformApi,
  registerPlatform,
  selfRequest,
  startPlatformApi,
} from "../support/platform_world.ts";

let api: PlatformApi;
beforeAll(async () => {
  api = await startPlatformApi();
});
afterAll(() => api.stop());

async function asked(scope: string[]) {
  const person = await api.person();
  const platform = await registerPlatform(person);
  await createAgent(api.client(), platform);
  const requestId = await selfRequest(person, platform.connectionId, { requested_scope: scope });
  return { person, requestId };
}

test("an approval above the account's ceiling is refused by name and asks the vault for nothing", async () => {
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

test("custom:* in the account's ceiling lets every scope of one's own pass", async () => {
  const { person, requestId } = await asked(["custom:orders:refund"]);
  await api
    .db("accounts")
    .where({ account_id: person.accountId })
    .update({ root_ceiling: ["custom:*"] });
  expect((await approve(person, requestId, ["custom:orders:refund"])).status).toBe(200);
});

test("ACCOUNT_CEILING is a list of scopes, and no bound when it is not set", () => {
  const environment = {
    DATABASE_URL: "postgres://localhost/none",
    SEALING_KEY: `${"A".repeat(43)}=`,
    BASE_URL: "http://localhost",
    VAULT_URL: "https://localhost",
    VAULT_CA_FILE: "ca",
    VAULT_CERT_FILE: "cert",
    VAULT_KEY_FILE: "key",
    DEVELOPMENT: "true",
  };
  const read = (value?: string): ApiConfig["ACCOUNT_CEILING"] =>
    readApiConfig({ ...environment, ...(value !== undefined && { ACCOUNT_CEILING: value }) }).ACCOUNT_CEILING;
  expect(read()).toBeUndefined();
  expect(read(" data:* , custom:*")).toEqual(["data:*", "custom:*"]);
  expect(read("custom:orders:*")).toEqual(["custom:orders:*"]);
  for (const wrong of ["data", "data:*,x-a:b", "custom:", "custom:refund"]) {
    expect(() => read(wrong)).toThrow(ConfigError);
  }
});
