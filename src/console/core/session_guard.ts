import { ApiError } from "../../errors.ts";
import { html } from "../../html/html.ts";
import { keptForm } from "./forms/kept_form.ts";
import type { Outcome, Visit } from "./page.ts";
import { ACCOUNT, CONSOLE, RENEW } from "./places.ts";
import type { Requested } from "./visit.ts";

/** What comes before a page for people whose session, or onboarding, is not there yet. */
export function refuseEarly(visit: Visit, { page, sent }: Requested): Outcome | undefined {
  const { session } = visit;
  if (page.access === "public") return undefined;
  const here = visit.here.slice(visit.own("").length);
  if (session === undefined) {
    if (sent !== undefined) return keptForm(visit, sent, "ended");
    return { to: visit.own(RENEW, { return_to: here }) };
  }
  if (page.access === "onboarded" && session.onboarding_step !== "complete") {
    const step = session.onboarding_step === "profile" ? "name" : "account";
    const return_to = here === CONSOLE ? undefined : here;
    return { to: visit.own(`${CONSOLE}/welcome/${step}`, { return_to }) };
  }
  if (page.access === "signed_in" || page.about === "person" || page.about === "installation") {
    return undefined;
  }
  const [first] = page.operations;
  if (visit.acting !== undefined && first !== undefined && !visit.may(first)) throw new ApiError("forbidden");
  return refuseStranger(visit, sent !== undefined);
}

/** What who is no member, or is one no more, sees of an account's pages. */
function refuseStranger(visit: Visit, isForm: boolean): Outcome | undefined {
  const { acting, account, own, texts } = visit;
  const words = texts.acting;
  if (acting !== undefined) return undefined;
  // Who opened an organization's account, and left it, may act for others; a form of theirs is not done.
  if (account === undefined && !isForm) return { to: own(ACCOUNT) };
  return {
    title: words.strangerTitle,
    content: html`<p>${words.stranger}</p>
      <p><a class="button" href=${own(ACCOUNT)}>${words.yourAccounts}</a></p>`,
  };
}
