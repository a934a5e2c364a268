import { afterAll, beforeAll, expect, test } from "vitest";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { startApi, type TestApi } from "../support/api.ts";

let bounded: TestApi;
let later: TestApi;
let free: TestApi;

beforeAll(async () => {
  bounded = await startApi({ config: { ACCOUNT_CEILING: ["data:read", "custom:*"] } });
  later = await startApi({ shares: bounded, config: { ACCOUNT_CEILING: ["data:*"] } });
  free = await startApi({ shares: bounded });
});
afterAll(async () => {
  for (const api of [free, later, bounded]) await api.stop();
});

const rootOf = async (accountId: string) => {
  const row = await bounded.db("accounts").where({ account_id: accountId }).first();
  return { noted: row?.root_ceiling, recorded: bounded.vault.keys.get(row?.root_key_id ?? "")?.ceiling };
};

test("an account's root key is created with the current ceiling setting", async () => {
  const { account_id } = await bounded.client().onboard("bounded@example.com");
  const ceiling = ["data:read", "custom:*"];
  expect(await rootOf(account_id)).toEqual({ noted: ceiling, recorded: ceiling });
  const other = await later.client().onboard("later@example.com");
  expect(await rootOf(other.account_id)).toEqual({ noted: ["data:*"], recorded: ["data:*"] });
  const unbounded = await free.client().onboard("free@example.com");
  expect(await rootOf(unbounded.account_id)).toEqual({ noted: null, recorded: null });
});

test("an interrupted onboarding step is repeated with the ceiling of its first attempt, even if the setting has changed", async () => {
  const client = bounded.client();
  await client.signIn("broken@example.com");
  await client.post("/v1/auth/onboarding/profile", { first_name: "Ada", last_name: "Byron" });
  bounded.vault.failure = new VaultUnavailable("unreachable", "away");
  const type = { account_type: "individual" };
  expect((await client.post("/v1/auth/onboarding/account-type", type)).status).toBe(503);
  bounded.vault.failure = undefined;
  const elsewhere = later.client();
  for (const name of ["service_session", "service_csrf"]) {
    elsewhere.setCookie(name, client.cookie(name) ?? "");
  }
  expect((await elsewhere.post("/v1/auth/onboarding/account-type", type)).status).toBe(200);
  const row = await bounded.db("accounts").where({ email: "broken@example.com" }).first();
  expect((await rootOf(row?.account_id ?? "")).recorded).toEqual(["data:read", "custom:*"]);
});
