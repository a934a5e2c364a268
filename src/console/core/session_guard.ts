import { keptForm } from "./kept_form.ts";
import type { Outcome, Visit } from "./page.ts";
import { RENEW } from "./places.ts";
import type { Requested } from "./visit.ts";

/** What comes before a page for people whose session, or onboarding, is not there yet. */
export function refuseEarly(visit: Visit, { page, sent }: Requested): Outcome | undefined {
  const { session } = visit;
  if (page.access === "public") return undefined;
  if (session === undefined) {
    if (sent !== undefined) return keptForm(visit, sent, "ended");
    return { to: visit.own(RENEW, { return_to: visit.here.slice(visit.own("").length) }) };
  }
  if (page.access === "onboarded" && session.onboarding_step !== "complete") {
    return {
      to: visit.own(`/console/welcome/${session.onboarding_step === "profile" ? "name" : "account"}`),
    };
  }
  return undefined;
}
