import { randomUUID } from "node:crypto";
import { createCodeHashes } from "../../src/accounts/sign_in/codes.ts";
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
    {
      title: "whose code another call spends",
      gets: ["400 invalid_code"],
      async prepare(api) {
        const email = `${randomUUID()}@example.test`;
        const client = api.client();
        await client.post("/v1/auth/email/send-code", { email });
        const code = await client.codeFor(email);
        const address = createCodeHashes(api.sealingKey).address(email);
        return {
          holds: ["select from sign_in_mails where email_hash = $1 for update", address],
          meanwhile: ["update sign_in_mails set ended_at = now() where email_hash = $1", address],
          call: () => client.post("/v1/auth/email/verify-code", { email, code }),
        };
      },
    },
  ],
  refresh_session: [
    {
      title: "whose session ends",
      gets: ["401 auth_required"],
      async prepare(api) {
        const { client, accountId } = await api.person();
        return {
          holds: ["select from sessions where account_id = $1 for update", accountId],
          meanwhile: ["update session_families set ended_at = now() where account_id = $1", accountId],
          call: () => client.post("/v1/auth/refresh"),
        };
      },
    },
  ],
  set_profile: [onboardingRace("profile", { first_name: "Ada", last_name: "Lovelace" })],
  set_account_type: [onboardingRace("account-type", { account_type: "individual" })],
};

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
