import { z } from "zod";

/** Steps of onboarding, in order. */
export const onboardingStep = z.enum(["profile", "account_type", "complete"]);
