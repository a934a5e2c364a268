import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { keyId } from "../../src/protocol/keys/hybrid.ts";
import { VaultUnavailable } from "../../src/vault/client.ts";
import { startApi, type TestApi } from "../support/api.ts";
import type { HttpClient } from "../support/http.ts";

const PROFILE = "/v1/auth/onboarding/profile";
const TYPE = "/v1/auth/onboarding/account-type";
const wrongStep = { status: 409, body: { error: { code: "onboarding_step", status: 409 } } };

let api: TestApi;
let other: TestApi;
beforeAll(async () => {
  api = await startApi();
  other = await startApi({ shares: api });
});
afterAll(async () => {
  await other.stop();
  await api.stop();
});
afterEach(() => {
  api.vault.failure = undefined;
});

let count = 0;
async function signedIn(): Promise<{ client: HttpClient; accountId: string }> {
  count += 1;
  const client = api.client();
  const { account_id } = await client.signIn(`person${count}@example.com`);
  return { client, accountId: account_id };
}

async function atAccountType() {
  const signed = await signedIn();
  await signed.client.post(PROFILE, { first_name: "Ada", last_name: "Lovelace" });
  return signed;
}

const account = (accountId: string) => api.db("accounts").where({ account_id: accountId }).first();
const ledger = (accountId: string) =>
  api.db.raw("select * from ledger_entries where account_id = ?", [accountId]);

describe("the profile step", () => {
  test("stores the trimmed names, and continues with the account-type step", async () => {
    const { client, accountId } = await signedIn();
    const answer = await client.post(PROFILE, { first_name: "  Ada ", last_name: "Lovelace-Ő" });
    expect(answer).toMatchObject({ status: 200, text: '{"onboarding_step":"account_type"}' });
    expect(await account(accountId)).toMatchObject({
      first_name: "Ada",
      last_name: "Lovelace-Ő",
      onboarding_step: "account_type",
    });
  });

  test("can be completed only once", async () => {
    const { client, accountId } = await atAccountType();
    expect(await client.post(PROFILE, { first_name: "Eve", last_name: "E" })).toMatchObject(wrongStep);
    expect(await account(accountId)).toMatchObject({ first_name: "Ada" });
  });

  test.each([
    ["empty", ""],
    ["blank", "  "],
    ["101 characters long", "x".repeat(101)],
    ["with a line break", "Ada\nEve"],
    ["with U+0000", "Ada\0"],
    ["half a surrogate pair", "\ud800"],
    ["with a zero-width character", "Love\u200blace"],
    ["with a character that reverses text", "Love\u202elace"],
    ["a number", 7],
    ["missing", undefined],
  ])("refuses a name that is %s", async (_, name) => {
    const { client, accountId } = await signedIn();
    expect(await client.post(PROFILE, { first_name: "Ada", last_name: name })).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request" } },
    });
    expect(await account(accountId)).toMatchObject({ onboarding_step: "profile" });
  });

  test("accepts names of 100 characters", async () => {
    const { client } = await signedIn();
    expect((await client.post(PROFILE, { first_name: "x".repeat(100), last_name: "y" })).status).toBe(200);
  });
});

describe("the account-type step", () => {
  test("creates a personal account with alpha credits and a root identity in the vault", async () => {
    const { client, accountId } = await atAccountType();
    const answer = await client.post(TYPE, { account_type: "individual" });
    expect(answer).toMatchObject({
      status: 200,
      body: { onboarding_step: "complete", account_type: "individual", credits: 10_000_000 },
    });
    const row = await account(accountId);
    expect(answer.body.human_id).toMatch(/^[0-9a-f]{32}$/);
    expect(row).toMatchObject({
      human_id: answer.body.human_id,
      account_type: "individual",
      organization_name: null,
    });
    expect(row?.root_public_key && keyId(row.root_public_key)).toBe(answer.body.human_id);
    expect(api.vault.keys.get(row?.root_key_id ?? "")).toMatchObject({
      tenant: accountId,
      purpose: "account_root",
    });
  });

  test("posts the alpha credits so that the credit book equals the account's balance", async () => {
    const { client, accountId } = await atAccountType();
    await client.post(TYPE, { account_type: "individual" });
    const { rows } = await ledger(accountId);
    expect(rows).toHaveLength(2);
    expect(rows).toContainEqual(
      expect.objectContaining({ book: "credit", kind: "alpha_credit", amount_micro_usd: 10_000_000 }),
    );
    expect(
      rows.reduce((sum: number, row: { amount_micro_usd: number }) => sum + row.amount_micro_usd, 0),
    ).toBe(0);
    expect(await api.db("balances").where({ account_id: accountId })).toMatchObject([
      { balance_micro_usd: 10_000_000 },
    ]);
  });

  test("creates an organization account with its name", async () => {
    const { client, accountId } = await atAccountType();
    const answer = await client.post(TYPE, {
      account_type: "organization",
      organization_name: " Analytical Engines ",
    });
    expect(answer).toMatchObject({ status: 200, body: { account_type: "organization" } });
    expect(await account(accountId)).toMatchObject({ organization_name: "Analytical Engines" });
  });

  test.each([
    ["unknown", { account_type: "company" }],
    ["missing", {}],
    ["an organization without a name", { account_type: "organization" }],
    ["an organization with a blank name", { account_type: "organization", organization_name: " " }],
    [
      "an organization whose name has a hidden character",
      { account_type: "organization", organization_name: "Sh\u200bop" },
    ],
    [
      "an organization with a name of 201 characters",
      { account_type: "organization", organization_name: "x".repeat(201) },
    ],
  ])("refuses a type that is %s", async (_, body) => {
    const { client } = await atAccountType();
    expect(await client.post(TYPE, body)).toMatchObject({
      status: 400,
      body: { error: { code: "invalid_request" } },
    });
  });

  test("cannot be completed before the profile step, or twice", async () => {
    const early = await signedIn();
    expect(await early.client.post(TYPE, { account_type: "individual" })).toMatchObject(wrongStep);
    const { client, accountId } = await atAccountType();
    const first = await client.post(TYPE, { account_type: "individual" });
    expect(await client.post(TYPE, { account_type: "individual" })).toMatchObject(wrongStep);
    expect(await account(accountId)).toMatchObject({ human_id: first.body.human_id });
  });

  test("changes nothing while the vault is unavailable, and can be repeated", async () => {
    const { client, accountId } = await atAccountType();
    api.vault.failure = new VaultUnavailable("unreachable", "away");
    expect(await client.post(TYPE, { account_type: "individual" })).toMatchObject({
      status: 503,
      body: { error: { code: "vault_unavailable", status: 503 } },
    });
    expect(await account(accountId)).toMatchObject({
      onboarding_step: "account_type",
      human_id: null,
      account_type: null,
    });
    expect(await api.db("balances").where({ account_id: accountId })).toEqual([]);
    api.vault.failure = undefined;
    expect((await client.post(TYPE, { account_type: "individual" })).status).toBe(200);
  });

  test("uses the existing root key if it is repeated after a failure that followed the vault call, even with a different account type", async () => {
    const { client, accountId } = await atAccountType();
    await api.db.raw(
      `create function break_off() returns trigger language plpgsql as $$ begin raise exception 'broken'; end $$;
       create trigger break_off before insert on balances for each row execute function break_off()`,
    );
    const broken = await client.post(TYPE, { account_type: "organization", organization_name: "Eve's" });
    await api.db.raw("drop trigger break_off on balances; drop function break_off()");
    expect(broken).toMatchObject({ status: 500, body: { error: { code: "internal" } } });
    expect(await account(accountId)).toMatchObject({ onboarding_step: "account_type", human_id: null });
    const keys = [...api.vault.keys].filter(([, { tenant }]) => tenant === accountId);
    expect(keys).toHaveLength(1);
    expect((await client.post(TYPE, { account_type: "individual" })).status).toBe(200);
    expect((await account(accountId))?.root_key_id).toBe(keys[0]?.[0]);
    expect([...api.vault.keys].filter(([, { tenant }]) => tenant === accountId)).toHaveLength(1);
  });

  test("completes only once if two replicas receive it many times concurrently", async () => {
    const { client, accountId } = await atAccountType();
    const onOther = other.client();
    for (const name of ["service_session", "service_csrf"]) {
      onOther.setCookie(name, client.cookie(name) ?? "");
    }
    const waiting: (() => void)[] = [];
    api.vault.pause = () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length === 4) for (const go of waiting) go();
      });
    const answers = await Promise.all(
      [client, onOther, client, onOther].map((each) => each.post(TYPE, { account_type: "individual" })),
    );
    api.vault.pause = undefined;
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409]);
    expect((await ledger(accountId)).rows).toHaveLength(2);
    expect([...api.vault.keys].filter(([, { tenant }]) => tenant === accountId)).toHaveLength(1);
  });

  test("opens an empty balance and posts nothing if the setting grants no alpha credits", async () => {
    const poor = await startApi({ shares: api, config: { ALPHA_CREDITS_MICRO_USD: 0 } });
    const client = poor.client();
    const { account_id } = await client.onboard("poor@example.com");
    expect((await client.get("/v1/auth/session")).body).toMatchObject({ credits: 0 });
    expect((await ledger(account_id)).rows).toEqual([]);
    await poor.stop();
  });
});
