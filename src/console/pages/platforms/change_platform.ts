import { html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { areaField, boxField, textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { scopeChoices } from "../../elements/scopes.ts";
import { lineFeeds } from "./new_platform.ts";
import { declaredNote } from "./shown.ts";

const FORM = "change";
const SCOPES = "default_allowed_scopes";

/** Changes a platform's name and description, and narrows its ceiling. */
export const changePlatformPage = page<Awaited<ReturnType<typeof load>>>({
  id: "change_platform",
  path: "/console/platforms/{platform_id}/change",
  access: "onboarded",
  operations: ["get_platform", "change_platform", "list_scopes"],
  load,
  title: ({ texts }, { platform: { name } }) => texts.platforms.changeTitle(name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, vocabulary }) {
    const words = visit.texts.platforms;
    if (platform.declared_by !== null || !visit.may("change_platform")) {
      return html`${declaredNote(visit, platform)}`;
    }
    const said = { vocabulary, platform: platform.name };
    return form(visit, {
      name: FORM,
      content: html`${textField(visit, {
        form: FORM,
        name: "name",
        label: words.name,
        hint: words.nameHint,
        value: platform.name,
        attributes: { maxlength: 128, autocomplete: "off" },
      })}
      ${areaField(visit, {
        form: FORM,
        name: "description",
        label: words.description,
        hint: words.descriptionHint,
        value: platform.description,
        required: false,
        attributes: { maxlength: 1000 },
      })}
      ${boxField(visit, {
        form: FORM,
        name: SCOPES,
        label: words.ceiling,
        hint: words.narrow,
        choices: scopeChoices(visit.texts, said, platform.default_allowed_scopes),
      })}`,
      submit: words.save,
    });
  },
  forms: {
    [FORM]: {
      errorFields: { invalid_scopes: SCOPES, ceiling_widened: SCOPES },
      faults: ({ platforms }) => ({ [SCOPES]: platforms.ceilingEmpty }),
      async submit({ call, params, at }, fields) {
        const body = {
          name: fields.get("name"),
          description: lineFeeds(fields.get("description")),
          [SCOPES]: fields.all(SCOPES),
        };
        await call("change_platform", { params, body });
        return { to: at(`/platforms/${params.platform_id}`), notice: "changed" };
      },
    },
  },
});

async function load({ call, params }: Visit) {
  const [platform, vocabulary] = await Promise.all([call("get_platform", { params }), call("list_scopes")]);
  return { platform, vocabulary };
}
