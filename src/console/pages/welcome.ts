import { html } from "../../html/html.ts";
import { page, Redirect, signedIn, type Visit } from "../core/page.ts";
import { choiceField, form, textField } from "../elements/form.ts";

const NAME = "/welcome/name";
const ACCOUNT = "/welcome/account";

/** The first step of onboarding: the person's name. */
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
      content: html`${textField(visit, {
        form: "profile",
        name: "first_name",
        label: visit.texts.profile.first,
        attributes: { autocomplete: "given-name", maxlength: 100 },
      })}
      ${textField(visit, {
        form: "profile",
        name: "last_name",
        label: visit.texts.profile.last,
        attributes: { autocomplete: "family-name", maxlength: 100 },
      })}`,
      submit: visit.texts.profile.submit,
    })}`,
  forms: {
    profile: {
      async submit(visit, fields) {
        const body = { first_name: fields.get("first_name"), last_name: fields.get("last_name") };
        await visit.call("set_profile", { body, once: true });
        return { to: visit.at(ACCOUNT) };
      },
    },
  },
});

/** The last step of onboarding: for whom the account is. */
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
        value: "individual",
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
        const account_type = fields.get("account_type");
        const isOrganization = account_type === "organization";
        const body = {
          account_type,
          ...(isOrganization && { organization_name: fields.get("organization_name") }),
        };
        await visit.call("set_account_type", { body, once: true });
        return { to: visit.at("/"), notice: "welcome" };
      },
    },
  },
});

/** Leads to the step that the account is at, when it is not this one. */
function stayAt(step: "profile" | "account_type", visit: Visit): undefined {
  const { onboarding_step } = signedIn(visit);
  if (onboarding_step === step) return undefined;
  const places = { profile: NAME, account_type: ACCOUNT, complete: "/" };
  throw new Redirect(visit.at(places[onboarding_step]));
}
