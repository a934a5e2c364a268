import { addSeconds } from "../../../clock.ts";
import { html } from "../../../html/html.ts";
import type { ConnectionAnswer } from "../../../platforms/connections/connection_key_routes.ts";
import type { Fields } from "../../core/forms.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { choiceField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { countdown, onceOnly, shownOnce, tryKeyLine } from "../../elements/secrets.ts";
import { copyBlock, time } from "../../elements/values.ts";

const FORM = "rotate";
const USUAL_GRACE = "3600";

/** The page that replaces the API key and shows the new one once. */
export const rotateKeyPage = page<ConnectionAnswer>({
  id: "rotate_key",
  path: "/console/connections/{connection_id}/rotate-key",
  operations: ["get_connection", "rotate_api_key"],
  load: ({ call, params }) => call("get_connection", { params }),
  title: ({ texts }) => texts.connections.rotateTitle,
  back: ({ at, texts }, { connection_id, platform }) => ({
    to: at(`/connections/${connection_id}`),
    text: texts.connections.title(platform.name),
  }),
  render(visit, connection) {
    const words = visit.texts.connections;
    return html`<p class="lead">${words.rotateLead}</p>
      ${connection.declared_by !== null && html`<p class="notice">${words.rotateDeclared}</p>`}
      ${
        visit.may("rotate_api_key") &&
        form(visit, {
          name: FORM,
          once: true,
          content: choiceField(visit, {
            form: FORM,
            name: "grace_seconds",
            label: words.grace,
            value: USUAL_GRACE,
            choices: words.graces.map(({ seconds, label, hint }) => ({
              value: String(seconds),
              label,
              ...(hint !== undefined && { hint }),
            })),
          }),
          submit: words.rotateSubmit,
        })
      }`;
  },
  forms: {
    [FORM]: {
      submit: (visit, fields) =>
        onceOnly(() => rotate(visit, fields), {
          title: visit.texts.connections.onceTitle,
          explain: visit.texts.connections.onceMade,
          links: [html`<a class="button" href=${address(visit)}>${visit.texts.connections.back}</a>`],
        }),
    },
  },
});

function address({ at, params }: Visit): string {
  return at(`/connections/${params.connection_id}`);
}

async function rotate(visit: Visit, fields: Fields): Promise<Outcome> {
  const { call, params, texts, now } = visit;
  const words = texts.connections;
  const grace = Number(fields.get("grace_seconds") || Number.NaN);
  const { api_key, previous_prefix } = await call("rotate_api_key", {
    params,
    body: { grace_seconds: grace },
    once: true,
  });
  const end = addSeconds(now, grace);
  return {
    title: words.rotatedTitle,
    content: html`<p class="lead">${words.rotatedLead}</p>
      ${shownOnce(texts, { id: "api-key", label: words.newKey, text: api_key, file: "api-key.txt" })}
      <p>${
        grace === 0
          ? words.formerEnded(previous_prefix)
          : html`${words.formerGood(previous_prefix)} ${time(end)} (${countdown(visit, end)})`
      }</p>
      <p>${words.tryKey}</p>
      ${copyBlock(texts, { id: "try-key", text: tryKeyLine(visit, params.connection_id ?? "") })}
      <p class="actions"><a class="button" href=${address(visit)}>${words.back}</a></p>`,
  };
}
