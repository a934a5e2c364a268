import { ApiError } from "../../../errors.ts";
import { html } from "../../../html/html.ts";
import type { ConnectionAnswer } from "../../../platforms/connections/connection_key_routes.ts";
import { page } from "../../core/page.ts";
import { checkField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";

const FORM = "remove";

/** Removes a connection with its platform, once it is said what that ends. */
export const removeConnectionPage = page<ConnectionAnswer>({
  id: "remove_connection",
  path: "/console/connections/{connection_id}/remove",
  access: "onboarded",
  operations: ["get_connection", "remove_connection"],
  load: ({ call, params }) => call("get_connection", { params }),
  title: ({ texts }, { platform }) => texts.connections.removeTitle(platform.name),
  back: ({ at, texts }, { connection_id, platform }) => ({
    to: at(`/connections/${connection_id}`),
    text: texts.connections.title(platform.name),
  }),
  render(visit, { platform, declared_by }) {
    const words = visit.texts.connections;
    return html`${declared_by !== null && html`<p class="notice">${words.removeDeclared}</p>`}
      <p class="lead">${words.removeExplain}</p>
      <ul>${words.removes.map((each) => html`<li>${each}</li>`)}</ul>
      <p>${words.keeps}</p>
      ${
        visit.may("remove_connection") &&
        form(visit, {
          name: FORM,
          once: true,
          content: checkField(visit, {
            form: FORM,
            name: "sure",
            label: words.removeSure(platform.name),
            required: true,
          }),
          submit: words.removeSubmit,
          tone: "danger",
        })
      }`;
  },
  forms: {
    [FORM]: {
      async submit({ call, params, at, texts }, fields) {
        if (fields.get("sure") !== "on") {
          throw new ApiError("invalid_request", `body.sure: ${texts.connections.removeNotSure}`);
        }
        await call("remove_connection", { params, once: true });
        return { to: at("/platforms"), notice: "connection_removed" };
      },
    },
  },
});
