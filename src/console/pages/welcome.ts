import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import type { Fields } from "../core/forms.ts";
import { page, Redirect, signedIn, type Visit } from "../core/page.ts";
import { wayBack } from "../core/places.ts";
import { choiceField, textField } from "../elements/fields.ts";
import { form, readerOf } from "../elements/form.ts";

const NAME = "/welcome/name";
const ACCOUNT = "/welcome/account";

/** The page for the first step of onboarding: the person's name. */
export const welcomeNamePage = page({
  id: "welcome_name",
  path: `/console${NAME}`,
  access: "signed_in",
  operations: ["set_profile"],
  load: async (visit) => stayAt("profile", visit),
  title: ({ texts }) => texts.profile.title,
  render: (visit) => html`<p class="lead">${visit.texts.profile.lead}</p>
    ${form(visit, {
      name: "profile",
      once: true,
      content: nameFields(visit),
      submit: visit.texts.profile.submit,
    })}`,
  forms: {
    profile: {
      async submit(visit, fields) {
        const body = { first_name: fields.get("first_name"), last_name: fields.get("last_name") };
        await inAnyTab(() => visit.call("set_profile", { body, once: true }));
        return { to: visit.at(ACCOUNT, { return_to: visit.query.return_to }) };
      },
    },
  },
});

/** Returns the fields of the form `profile`, in which a person gives their name. */
export function nameFields(visit: Visit, { first, last } = { first: "", last: "" }): Html {
  const { profile: words } = visit.texts;
  return html`${textField(visit, {
    form: "profile",
    name: "first_name",
    label: words.first,
    value: first,
    attributes: { autocomplete: "given-name", maxlength: 100 },
  })}
  ${textField(visit, {
    form: "profile",
    name: "last_name",
    label: words.last,
    value: last,
    attributes: { autocomplete: "family-name", maxlength: 100 },
  })}`;
}

/** The page for the last step of onboarding: the account type. */
export const welcomeAccountPage = page({
  id: "welcome_account",
  path: `/console${ACCOUNT}`,
  access: "signed_in",
  operations: ["set_account_type"],
  load: async (visit) => stayAt("account_type", visit),
  title: ({ texts }) => texts.account.title,
  render(visit) {
    const { account } = visit.texts;
    return html`<p class="lead">${account.lead}</p>
    ${form(visit, {
      name: "account",
      once: true,
      content: html`${choiceField(visit, {
        form: "account",
        name: "account_type",
        label: account.type,
        choices: [
          { value: "individual", label: account.individual, hint: account.individualHint },
          { value: "organization", label: account.organization, hint: account.organizationHint },
        ],
      })}
      ${textField(visit, {
        form: "account",
        name: "organization_name",
        label: account.organizationName,
        hint: account.organizationNameHint,
        required: false,
        attributes: { autocomplete: "organization", maxlength: 200 },
      })}`,
      submit: account.submit,
    })}`;
  },
  forms: {
    account: {
      async submit(visit, fields) {
        const body = readAccount(visit, fields);
        await inAnyTab(() => visit.call("set_account_type", { body, once: true }));
        return { to: visit.own(wayBack(visit.query.return_to)), notice: "welcome" };
      },
    },
  },
});

/**
 * Throws `invalid_request` if no account type is selected, or if an organization's name was entered for a
 * different type. The type cannot be changed later, so the page does not guess.
 */
function readAccount({ texts }: Visit, fields: Fields): { account_type: string; organization_name?: string } {
  const reader = readerOf(texts, fields);
  const account_type = reader.optional("account_type");
  const isOrganization = account_type === "organization";
  if (account_type === "") reader.fault("account_type", texts.account.chooseOne);
  if (!isOrganization && reader.optional("organization_name") !== "") {
    reader.fault("account_type", texts.account.whichIsMeant);
  }
  const named = isOrganization ? { organization_name: reader.text("organization_name") } : {};
  reader.check();
  return { account_type, ...named };
}

/** Runs a step of onboarding. Ignores the error if another tab has already completed the step. */
async function inAnyTab(step: () => Promise<unknown>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "onboarding_step") throw error;
  }
}

function stayAt(step: "profile" | "account_type", visit: Visit): undefined {
  const { onboarding_step } = signedIn(visit);
  if (onboarding_step === step) return undefined;
  const places = { profile: NAME, account_type: ACCOUNT, complete: "/" };
  throw new Redirect(visit.at(places[onboarding_step], { return_to: visit.query.return_to }));
}
