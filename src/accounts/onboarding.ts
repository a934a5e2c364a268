import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Database, Transaction } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { HIDDEN_TEXT, isPlainText } from "../input/plain_text.ts";
import { CONTROLS } from "../input/schemas.ts";
import { isOneScript, MIXED_SCRIPTS } from "../input/scripts.ts";
import { keyId } from "../protocol/keys/hybrid.ts";
import { type Route, route } from "../route.ts";
import type { VaultClient } from "../vault/client.ts";
import { grantAlphaCredits, recordCreditedAddress } from "./ledger/amounts.ts";
import type { CodeHashes } from "./sign_in/codes.ts";

/**
 * Returns the schema of a display name: 1 to `max` characters after trimming, in NFC, without control
 * characters, line breaks and hidden characters.
 */
export function displayName(max: number) {
  return z
    .string()
    .trim()
    .normalize("NFC")
    .min(1)
    .max(max)
    .regex(new RegExp(`^[^${CONTROLS}\\u2028\\u2029]*$`), "must not contain control characters")
    .refine(isPlainText, HIDDEN_TEXT);
}

/** The name of an organization. */
export const organizationName = displayName(200).refine(isOneScript, MIXED_SCRIPTS);

const profileBody = z.object({ first_name: displayName(100), last_name: displayName(100) });
const profileAnswer = z.object({ onboarding_step: z.literal("account_type") });

/** `POST /v1/auth/onboarding/profile`: the first step of onboarding. It can be completed once. */
export function profileRoute({ db }: { db: Database }): Route {
  return route({
    id: "set_profile",
    method: "POST",
    path: "/v1/auth/onboarding/profile",
    summary: "Give the person's name",
    access: "session",
    roles: "person",
    onboarding: "any",
    idempotent: true,
    body: profileBody,
    answer: { status: 200, schema: profileAnswer, description: "The account's type is the next step" },
    errors: ["onboarding_step"],
    async handle({ caller, body }) {
      const taken = await db("accounts")
        .where({ account_id: caller.accountId, onboarding_step: "profile" })
        .update({ ...body, onboarding_step: "account_type" });
      if (taken !== 1) throw new ApiError("onboarding_step");
      return { body: { onboarding_step: "account_type" as const } };
    },
  });
}

/** `PATCH /v1/auth/profile`: changes the person's name at any time after the first step of onboarding. */
export function changeProfileRoute({ db }: { db: Database }): Route {
  return route({
    id: "change_profile",
    method: "PATCH",
    path: "/v1/auth/profile",
    summary: "Change the person's name",
    access: "session",
    roles: "person",
    recorded: true,
    idempotent: true,
    body: profileBody,
    answer: { status: 200, schema: profileBody, description: "The name from now on" },
    errors: [],
    async handle({ caller, body }) {
      await db("accounts").where({ account_id: caller.person.accountId }).update(body);
      return { body };
    },
  });
}

const body = z.discriminatedUnion("account_type", [
  z.object({ account_type: z.literal("individual") }),
  z.object({ account_type: z.literal("organization"), organization_name: organizationName }),
]);
const answer = z.object({
  onboarding_step: z.literal("complete"),
  account_type: z.enum(["individual", "organization"]),
  human_id: z.string().describe("The account's root identity"),
  credits: z.int().describe("Balance in micro-USD"),
});

type AccountTypeDeps = {
  db: Database;
  clock: Clock;
  vault: Pick<VaultClient, "createKey">;
  alphaCredits: number;
  hashes: Pick<CodeHashes, "address">;
  accountCeiling: string[] | undefined;
};

type RootKey = Awaited<ReturnType<VaultClient["createKey"]>>;

/**
 * `POST /v1/auth/onboarding/account-type`: the last step of onboarding. The vault creates the account's root
 * key. Then one transaction writes the identity, the step and the alpha credits.
 *
 * An interrupted attempt leaves the step unchanged. The next attempt gets the same root key, on any replica
 * and with any setting: it sends the same idempotency key, and the ceiling that the first attempt stored.
 */
export function accountTypeRoute(deps: AccountTypeDeps): Route {
  return route({
    id: "set_account_type",
    method: "POST",
    path: "/v1/auth/onboarding/account-type",
    summary: "Choose the account's type; creates its root identity",
    access: "session",
    roles: "person",
    onboarding: "any",
    idempotent: true,
    body,
    answer: { status: 200, schema: answer, description: "Onboarding is complete" },
    errors: ["onboarding_step", "vault_unavailable"],
    async handle({ caller: { accountId, onboardingStep }, body }) {
      if (onboardingStep !== "account_type") throw new ApiError("onboarding_step");
      const key = await createRootKey(deps, accountId);
      const humanId = keyId(key.public_key);
      const credits = await deps.db.transaction((tx) =>
        complete(tx, deps, { accountId, humanId, key, type: body }),
      );
      return {
        body: {
          onboarding_step: "complete" as const,
          account_type: body.account_type,
          human_id: humanId,
          credits,
        },
      };
    },
  });
}

async function createRootKey(deps: AccountTypeDeps, accountId: string): Promise<RootKey> {
  const ceiling = await noteCeiling(deps, accountId);
  return deps.vault.createKey(
    { tenant: accountId, purpose: "account_root", label: "account root", ...(ceiling && { ceiling }) },
    `account-root-${accountId}`,
  );
}

/** Returns the ceiling that an earlier attempt stored, otherwise stores and returns the current setting. */
async function noteCeiling(
  { db, accountCeiling }: AccountTypeDeps,
  accountId: string,
): Promise<string[] | null> {
  if (accountCeiling !== undefined) {
    await db("accounts")
      .where({ account_id: accountId, root_ceiling: null, onboarding_step: "account_type" })
      .update({ root_ceiling: accountCeiling });
  }
  const account = await db("accounts").where({ account_id: accountId }).first("root_ceiling");
  return account?.root_ceiling ?? null;
}

type Completion = { accountId: string; humanId: string; key: RootKey; type: z.infer<typeof body> };

/** Completes the onboarding, and returns the alpha credits. An address gets them once. */
async function complete(
  tx: Transaction,
  { clock, alphaCredits, hashes }: AccountTypeDeps,
  { accountId, humanId, key, type }: Completion,
): Promise<number> {
  const [completed] = await tx("accounts")
    .where({ account_id: accountId, onboarding_step: "account_type" })
    .update({
      onboarding_step: "complete",
      account_type: type.account_type,
      organization_name: type.account_type === "organization" ? type.organization_name : null,
      human_id: humanId,
      root_key_id: key.key_id,
      root_public_key: key.public_key,
    })
    .returning("email");
  if (completed === undefined) throw new ApiError("onboarding_step");
  const amount = (await recordCreditedAddress(tx, hashes, completed.email)) ? alphaCredits : 0;
  await grantAlphaCredits(tx, { accountId, amount }, clock.now());
  return amount;
}
