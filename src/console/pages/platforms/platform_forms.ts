import { type Html, html } from "../../../html/html.ts";
import { explanationValues, type ScopeDescriptions } from "../../../input/platform_fields.ts";
import type { PlatformAnswer, RegisteredAnswer } from "../../../platforms/platform_answers.ts";
import type { Fields } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { areaField, boxField, checkField, choicesOf, selectField, textField } from "../../elements/fields.ts";
import { form, readerOf } from "../../elements/form.ts";
import { pickedScopes, scopeChoices, scopePicker } from "../../elements/scopes.ts";
import { onceOnly, shownOnce, tryKeyLine } from "../../elements/secrets.ts";
import { copyBlock, titleWith, withNames } from "../../elements/values.ts";
import type { Texts } from "../../texts/texts.ts";
import { declaredNote, isOrganization, removingNote } from "./platform.ts";

const FORM = "register";
const SCOPES = "default_allowed_scopes";

/** The page that registers a platform and shows its secrets once. */
export const newPlatformPage = page<Awaited<ReturnType<typeof load>>>({
  id: "new_platform",
  path: "/console/platforms/new",
  operations: ["register_platform", "register_personal_platform", "list_scopes", "list_platforms"],
  load,
  title: ({ texts }) => texts.platforms.newTitle,
  back: ({ at, texts }) => ({ to: at("/platforms"), text: texts.platforms.title }),
  render(visit, { vocabulary, only }) {
    const words = visit.texts.platforms;
    if (only !== undefined) {
      return html`<p class="lead">${words.oneOnly}</p>
        <p class="actions"><a class="button" href=${visit.at(`/platforms/${only.platform_id}`)}>${withNames(words.toTheOne, only.name)}</a></p>`;
    }
    return html`<p class="lead">${words.newLead}</p>
      ${form(visit, {
        name: FORM,
        once: true,
        content: html`${textField(visit, {
          form: FORM,
          name: "name",
          label: words.name,
          hint: words.nameHint,
          attributes: { maxlength: 128, autocomplete: "off" },
        })}
        ${areaField(visit, {
          form: FORM,
          name: "description",
          label: words.description,
          hint: words.descriptionHint,
          required: false,
          attributes: { maxlength: 1000 },
        })}
        ${scopePicker(visit, { form: FORM, name: SCOPES, label: words.ceiling, hint: words.ceilingHint, vocabulary })}
        ${textField(visit, {
          form: FORM,
          name: "callback_url",
          label: words.callbackUrl,
          hint: words.callbackUrlHint,
          required: false,
          attributes: { type: "url", autocomplete: "off" },
        })}`,
        submit: words.submitNew,
      })}`;
  },
  forms: {
    [FORM]: {
      errorFields: { invalid_scopes: SCOPES, invalid_callback_url: "callback_url" },
      faults: ({ platforms }) => ({ [SCOPES]: platforms.ceilingEmpty }),
      submit: (visit, fields) =>
        onceOnly(() => register(visit, fields), {
          title: visit.texts.platforms.onceTitle,
          explain: visit.texts.platforms.onceMade,
          links: [html`<a class="button" href=${visit.at("/platforms")}>${visit.texts.platforms.title}</a>`],
        }),
    },
  },
});

async function load(visit: Visit) {
  const [vocabulary, only] = await Promise.all([visit.call("list_scopes"), onlyPlatform(visit)]);
  return { vocabulary, only };
}

/** Returns a personal account's platform. A personal account may have only one. */
async function onlyPlatform(visit: Visit) {
  if (isOrganization(visit)) return undefined;
  const { items } = await visit.call("list_platforms", { query: { limit: "1" } });
  return items[0];
}

async function register(visit: Visit, fields: Fields): Promise<Outcome> {
  const callback_url = fields.get("callback_url").trim();
  const body = {
    name: fields.get("name"),
    description: lineFeeds(fields.get("description")),
    surface_type: "agentic_api",
    [SCOPES]: pickedScopes(fields, SCOPES),
    ...(callback_url !== "" && { callback_url }),
  };
  const operation = isOrganization(visit) ? "register_platform" : "register_personal_platform";
  const made = await visit.call(operation, { body, once: true });
  return { title: titleWith(visit.texts.platforms.madeTitle, made.name), content: secrets(visit, made) };
}

/** Converts the line breaks of browsers, which send CR LF, to LF. */
function lineFeeds(text: string): string {
  return text.replaceAll("\r\n", "\n");
}

function secrets(visit: Visit, made: RegisteredAnswer): Html {
  const { texts, at } = visit;
  const words = texts.platforms;
  const connection = `/connections/${made.connection_id}`;
  return html`<p class="lead">${words.madeLead}</p>
    ${shownOnce(texts, { id: "api-key", label: words.apiKey, text: made.api_key, file: "api-key.txt" })}
    ${shownOnce(texts, {
      id: "webhook-secret",
      label: words.webhookSecret,
      text: made.webhook_signing_secret,
      file: "webhook-secret.txt",
    })}
    <details><summary>${words.otherSecret}</summary><p>${words.otherSecretLead}</p>
      ${shownOnce(texts, {
        id: "signing-secret",
        label: words.otherSecret,
        text: made.signing_secret,
        file: "signing-secret.txt",
      })}</details>
    <section class="card"><h2>${words.next}</h2>
      <p>${words.tryKey}</p>
      ${copyBlock(texts, { id: "try-key", text: tryKeyLine(visit, made.connection_id) })}
      <p class="hint">${words.keyPlaceholder}</p>
      <p class="actions"><a class="button" href=${at(`/platforms/${made.platform_id}`)}>${words.openPlatform}</a>
        <a href=${at("/agents")}>${words.makeAgent}</a>
        <a href=${at(`${connection}/callback`)}>${words.setCallback}</a></p>
    </section>`;
}

const CHANGE = "change";

/** The page that changes a platform's name, description and redirect URIs, and narrows its ceiling. */
export const changePlatformPage = page<Awaited<ReturnType<typeof loadPlatform>>>({
  id: "change_platform",
  path: "/console/platforms/{platform_id}/change",
  operations: ["get_platform", "change_platform", "list_scopes"],
  load: loadPlatform,
  title: ({ texts }, { platform: { name } }) => titleWith(texts.platforms.changeTitle, name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, vocabulary }) {
    const words = visit.texts.platforms;
    if (platform.state === "removing") return removingNote(visit);
    if (platform.declared_by !== null || !visit.may("change_platform")) {
      return html`${declaredNote(visit, platform)}`;
    }
    const said = { vocabulary, platform: platform.name, descriptions: platform.scope_descriptions };
    return form(visit, {
      name: CHANGE,
      content: html`${textField(visit, {
        form: CHANGE,
        name: "name",
        label: words.name,
        hint: words.nameHint,
        value: platform.name,
        attributes: { maxlength: 128, autocomplete: "off" },
      })}
      ${areaField(visit, {
        form: CHANGE,
        name: "description",
        label: words.description,
        hint: words.descriptionHint,
        value: platform.description,
        required: false,
        attributes: { maxlength: 1000 },
      })}
      ${boxField(visit, {
        form: CHANGE,
        name: SCOPES,
        label: words.ceiling,
        hint: words.narrow,
        isTicked: () => true,
        choices: scopeChoices(visit.texts, said, platform.default_allowed_scopes),
      })}
      ${selectField(visit, {
        form: CHANGE,
        name: "explanation_values",
        label: words.explanations,
        hint: words.explanationsHint,
        value: platform.explanation_values,
        choices: choicesOf(words.explanationValues),
      })}
      ${areaField(visit, {
        form: CHANGE,
        name: "redirect_uris",
        label: words.redirectUris,
        hint: words.redirectUrisHint(platform.published_domain),
        value: platform.redirect_uris.join("\n"),
        required: false,
        attributes: { maxlength: 6000, autocomplete: "off", spellcheck: "false" },
      })}
      ${describedFields(visit, platform)}`,
      submit: words.save,
    });
  },
  forms: {
    [CHANGE]: {
      errorFields: { invalid_scopes: SCOPES, ceiling_widened: SCOPES, invalid_redirect_uri: "redirect_uris" },
      faults: ({ platforms }) => ({ [SCOPES]: platforms.ceilingEmpty }),
      async submit({ call, params, at, texts }, fields) {
        const body = {
          name: fields.get("name"),
          description: lineFeeds(fields.get("description")),
          [SCOPES]: fields.all(SCOPES),
          scope_descriptions: readDescribed(texts, fields),
          redirect_uris: fields.get("redirect_uris").split(/\s+/).filter(Boolean),
          ...readValues(fields),
        };
        await call("change_platform", { params, body });
        return { to: at(`/platforms/${params.platform_id}`), notice: "changed" };
      },
    },
  },
});

async function loadPlatform({ call, params }: Visit) {
  const [platform, vocabulary] = await Promise.all([call("get_platform", { params }), call("list_scopes")]);
  return { platform, vocabulary };
}

/** Reads how explanations keep values. A page from before this field existed does not send it. */
function readValues(fields: Fields) {
  const selected = explanationValues.safeParse(fields.get("explanation_values"));
  return selected.success ? { explanation_values: selected.data } : {};
}

/** Returns fields for the words about each custom scope of the platform. */
function describedFields(visit: Visit, { default_allowed_scopes, scope_descriptions }: PlatformAnswer): Html {
  const words = visit.texts.platforms.described;
  const custom = default_allowed_scopes.filter((scope) => scope.startsWith("custom:"));
  return html`${custom.map((scope, place) => {
    const described = Object.hasOwn(scope_descriptions, scope) ? scope_descriptions[scope] : undefined;
    return html`<fieldset class="field"><legend>${words.legend} <code>${scope}</code></legend>
      <input type="hidden" name=${`scope_${place}`} value=${scope} />
      ${textField(visit, {
        form: CHANGE,
        name: `label_${place}`,
        label: words.label,
        hint: words.labelHint,
        value: described?.label ?? "",
        required: false,
        attributes: { maxlength: 60, autocomplete: "off" },
      })}
      ${textField(visit, {
        form: CHANGE,
        name: `words_${place}`,
        label: words.description,
        value: described?.description ?? "",
        required: false,
        attributes: { maxlength: 200, autocomplete: "off" },
      })}
      ${checkField(visit, {
        form: CHANGE,
        name: `sensitive_${place}`,
        label: words.sensitive,
        hint: words.sensitiveHint,
        value: described?.sensitive === true ? "on" : "",
      })}</fieldset>`;
  })}`;
}

/** Reads the words about custom scopes. A scope without a label and a description has none. */
function readDescribed(texts: Texts, fields: Fields): ScopeDescriptions {
  const reader = readerOf(texts, fields);
  const kept = fields.all(SCOPES);
  const described: ScopeDescriptions = {};
  for (let place = 0; fields.get(`scope_${place}`) !== ""; place += 1) {
    const scope = fields.get(`scope_${place}`);
    const [label, description] = [`label_${place}`, `words_${place}`];
    if (!kept.includes(scope) || reader.optional(label) + reader.optional(description) === "") continue;
    const sensitive = fields.get(`sensitive_${place}`) === "on";
    described[scope] = { label: reader.text(label), description: reader.text(description), sensitive };
  }
  reader.check();
  return described;
}
