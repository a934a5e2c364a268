import { html } from "../../../html/html.ts";
import type { ConnectionAnswer } from "../../../platforms/connections/connection_key_routes.ts";
import { page } from "../../core/page.ts";
import { checkField, textField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";

const FORM = "change";

/** Changes the name that proofs are bound to, and whether AuthZEN answers without one. */
export const changeConnectionPage = page<ConnectionAnswer>({
  id: "change_connection",
  path: "/console/connections/{connection_id}/change",
  access: "onboarded",
  operations: ["get_connection", "change_connection"],
  load: ({ call, params }) => call("get_connection", { params }),
  title: ({ texts }) => texts.connections.changeTitle,
  back: ({ at, texts }, { connection_id, platform }) => ({
    to: at(`/connections/${connection_id}`),
    text: texts.connections.title(platform.name),
  }),
  render(visit, connection) {
    const words = visit.texts.connections;
    return html`${
      visit.may("change_connection") &&
      form(visit, {
        name: FORM,
        content: html`${textField(visit, {
          form: FORM,
          name: "verifier_id",
          label: words.verifier,
          hint: words.verifierHint,
          value: connection.verifier_id,
          attributes: { maxlength: 512, autocomplete: "off", spellcheck: "false" },
        })}
          ${checkField(visit, {
            form: FORM,
            name: "registry_answers",
            label: words.registryField,
            hint: words.registryHint,
            value: connection.registry_answers ? "on" : "",
          })}`,
        submit: words.save,
      })
    }`;
  },
  forms: {
    [FORM]: {
      async submit({ call, params, at }, fields) {
        const body = {
          verifier_id: fields.get("verifier_id"),
          registry_answers: fields.get("registry_answers") === "on",
        };
        await call("change_connection", { params, body });
        return { to: at(`/connections/${params.connection_id}`), notice: "changed" };
      },
    },
  },
});
