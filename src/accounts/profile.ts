import { z } from "zod";
import type { Database } from "../db/database.ts";
import { ApiError } from "../errors.ts";
import { type Route, route } from "../route.ts";
import { displayName } from "./display_name.ts";

const body = z.object({ first_name: displayName(100), last_name: displayName(100) });
const answer = z.object({ onboarding_step: z.literal("account_type") });

/** `POST /v1/auth/onboarding/profile`: the first step of onboarding, taken once. */
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
    body,
    answer: { status: 200, schema: answer, description: "The account's type is the next step" },
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
