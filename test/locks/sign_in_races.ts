import { randomUUID } from "node:crypto";
import { createCodeHashes, newLinkCode } from "../../src/accounts/sign_in/codes.ts";
import { addressCodes, changeAddress } from "../support/account_codes.ts";
import { lockAccount, type RaceRow } from "./races.ts";

/** Races of the operations that sign in and onboard. */
export const signInRaces: Record<string, RaceRow[]> = {
  send_code: [
    {
      title: "beside another call for the address",
      gets: ["200"],
      async prepare(api) {
        const email = `${randomUUID()}@example.test`;
        const address = createCodeHashes(api.sealingKey).address(email);
        return {
          holds: ["select pg_advisory_xact_lock(hashtextextended(encode($1, 'hex'), 0))", address],
          call: () => api.client().post("/v1/auth/email/send-code", { email }),
        };
      },
    },
  ],
  verify_code: [
    codeRace("whose code another call spends", "ended_at = now(), spent = true"),
    codeRace("whose tries other calls use up", "own_tries = 5"),
    codeRace("without a cookie, for a code that another code replaces", "shared = false", { cookie: false }),
    codeRace("whose link another call spends", "ended_at = now(), spent = true", { kind: "link" }),
    {
      title: "of an account that gets another address",
      gets: ["409 address_taken"],
      async prepare(api) {
        const { accountId, email } = await api.person();
        const client = api.client();
        await client.post("/v1/auth/email/send-code", { email });
        const code = await client.codeFor(email);
        return {
          holds: ["select from accounts where account_id = $1 for update", accountId],
          meanwhile: [
            "update accounts set email = $2 where account_id = $1",
            accountId,
            `${randomUUID()}@example.test`,
          ],
          call: () => client.post("/v1/auth/email/verify-code", { email, code }),
        };
      },
    },
  ],
  refresh_session: ["sessions", "session_families"].map((table) => ({
    title: `whose session ends, with a lock on ${table}`,
    gets: ["401 auth_required"],
    async prepare(api) {
      const { client, accountId } = await api.person();
      return {
        holds: [`select from ${table} where account_id = $1 for share`, accountId],
        meanwhile: ["update session_families set ended_at = now() where account_id = $1", accountId],
        call: () => client.post("/v1/auth/refresh"),
      };
    },
  })),
  change_address: [
    {
      title: "whose codes another call uses",
      gets: ["400 invalid_code"],
      async prepare(api) {
        const person = await api.person();
        const body = await addressCodes(api, person);
        return {
          holds: ["select from account_codes where account_id = $1 for share", person.accountId],
          meanwhile: ["delete from account_codes where account_id = $1", person.accountId],
          call: () => person.client.post("/v1/auth/address", body),
        };
      },
    },
    {
      title: "beside a refresh, which locks the sign-in before the account",
      gets: ["200"],
      async prepare(api) {
        const person = await api.person();
        const body = await addressCodes(api, person);
        return {
          holds: ["select from session_families where account_id = $1 for update", person.accountId],
          meanwhile: ["select from accounts where account_id = $1 for key share", person.accountId],
          call: () => person.client.post("/v1/auth/address", body),
        };
      },
    },
    {
      title: "to an address with which somebody else opens an account",
      gets: ["409 address_taken"],
      async prepare(api) {
        const person = await api.person();
        const email = `${randomUUID()}@example.test`;
        const body = await addressCodes(api, person, email);
        const values = [randomUUID(), email];
        return {
          holds: lockAccount(person.accountId),
          meanwhile: [
            "insert into accounts (account_id, email, onboarding_step, created_at) values ($1, $2, 'profile', now())",
            ...values,
          ],
          call: () => person.client.post("/v1/auth/address", body),
        };
      },
    },
  ],
  undo_address_change: [
    {
      title: "whose token another call uses",
      gets: ["400 invalid_code"],
      async prepare(api) {
        const person = await api.person();
        const { undo } = await changeAddress(api, person);
        const token = await undo();
        return {
          holds: ["select from former_addresses where account_id = $1 for share", person.accountId],
          meanwhile: ["delete from former_addresses where account_id = $1", person.accountId],
          call: () => api.client().post("/v1/auth/address/undo", { token }),
        };
      },
    },
  ],
  set_profile: [onboardingRace("profile", { first_name: "Ada", last_name: "Lovelace" })],
  set_account_type: [onboardingRace("account-type", { account_type: "individual" })],
};

/** A call with the right code of an email that another transaction changes. */
function codeRace(title: string, change: string, { cookie = true, kind = "digits" } = {}): RaceRow {
  return {
    title,
    gets: ["400 invalid_code"],
    async prepare(api) {
      const email = `${randomUUID()}@example.test`;
      const client = api.client();
      await client.post("/v1/auth/email/send-code", { email });
      const hashes = createCodeHashes(api.sealingKey);
      const address = hashes.address(email);
      const code = kind === "link" ? newLinkCode() : await client.codeFor(email);
      await api
        .db("sign_in_mails")
        .where({ email_hash: address })
        .update({ kind: kind as "digits", code_hash: hashes.code(email, code) });
      const sender = cookie ? client : api.client();
      return {
        holds: ["select from sign_in_mails where email_hash = $1 for share", address],
        meanwhile: [`update sign_in_mails set ${change} where email_hash = $1`, address],
        call: () => sender.post("/v1/auth/email/verify-code", { email, code }),
      };
    },
  };
}

/** Two calls complete the same step. */
function onboardingRace(step: "profile" | "account-type", body: object): RaceRow {
  return {
    title: "beside a second call",
    gets: ["200", "409 onboarding_step"],
    async prepare(api) {
      const client = api.client();
      const { account_id: accountId } = await client.signIn(`${randomUUID()}@example.test`);
      const profile = { first_name: "Ada", last_name: "Lovelace" };
      if (step !== "profile") await client.post("/v1/auth/onboarding/profile", profile);
      return {
        holds: lockAccount(accountId),
        call: () => client.post(`/v1/auth/onboarding/${step}`, body),
        times: 2,
      };
    },
  };
}
