import { html } from "../../../html/html.ts";
import type { Answers } from "../../core/calls.ts";
import { page } from "../../core/page.ts";
import { checkField, textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";

/** An organization's name, and whether who asks may approve. */
export const organizationSettingsPage = page<Answers["get_organization"]>({
  id: "organization_settings",
  path: "/console/organization/settings",
  access: "onboarded",
  about: "organization",
  operations: ["change_organization", "get_organization"],
  load: ({ call }) => call("get_organization"),
  title: ({ texts }) => texts.organization.settingsTitle,
  back: ({ at, texts }) => ({ to: at("/organization"), text: texts.organization.navigation }),
  render(visit, { organization_name, four_eyes }) {
    const { organization: words } = visit.texts;
    return html`<section class="card"><h2>${words.name}</h2>${form(visit, {
      name: "rename",
      content: textField(visit, {
        form: "rename",
        name: "organization_name",
        label: words.name,
        hint: words.nameHint,
        value: organization_name,
        attributes: { autocomplete: "organization", maxlength: 200 },
      }),
      submit: words.rename,
    })}</section>
    <section class="card"><h2>${words.fourEyesTitle}</h2>${form(visit, {
      name: "four_eyes",
      content: checkField(visit, {
        form: "four_eyes",
        name: "four_eyes",
        label: words.fourEyesLabel,
        hint: words.fourEyesHint,
        value: four_eyes ? "on" : "",
      }),
      submit: words.saveFourEyes,
    })}</section>`;
  },
  forms: {
    rename: {
      async submit({ call, at }, fields) {
        await call("change_organization", { body: { organization_name: fields.get("organization_name") } });
        return { to: at("/organization"), notice: "renamed" };
      },
    },
    four_eyes: {
      async submit({ call, at }, fields) {
        await call("change_organization", { body: { four_eyes: fields.get("four_eyes") === "on" } });
        return { to: at("/organization"), notice: "four_eyes_set" };
      },
    },
  },
});
