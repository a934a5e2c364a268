import { addSeconds } from "../../../clock.ts";
import { type Html, html } from "../../../html/html.ts";
import type { RotatedKey } from "../../../platforms/api_keys/rotate_key.ts";
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
          content: graceField(visit, FORM),
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
  const { call, params, texts } = visit;
  const words = texts.connections;
  const grace_seconds = graceOf(fields);
  const rotated = await call("rotate_api_key", { params, body: { grace_seconds }, once: true });
  return {
    title: words.rotatedTitle,
    content: html`${newKey(visit, rotated, grace_seconds)}
      <p>${words.tryKey}</p>
      ${copyBlock(texts, { id: "try-key", text: tryKeyLine(visit, params.connection_id ?? "") })}
      <p class="actions"><a class="button" href=${address(visit)}>${words.back}</a></p>`,
  };
}

/** Returns the field for how long the present key remains valid. */
export function graceField(visit: Visit, form: string): Html {
  const words = visit.texts.connections;
  return choiceField(visit, {
    form,
    name: "grace_seconds",
    label: words.grace,
    value: USUAL_GRACE,
    choices: words.graces.map(({ seconds, label, hint }) => ({
      value: String(seconds),
      label,
      ...(hint !== undefined && { hint }),
    })),
  });
}

/** Reads the {@link graceField}, in seconds. Returns `NaN`, which the API refuses, if it is empty. */
export function graceOf(fields: Fields): number {
  return Number(fields.get("grace_seconds") || Number.NaN);
}

/** Returns the new key, shown once, and says when the former one ends. */
export function newKey(visit: Visit, { api_key, previous_prefix }: RotatedKey, graceSeconds: number): Html {
  const words = visit.texts.connections;
  const end = addSeconds(visit.now, graceSeconds);
  return html`<p class="lead">${words.rotatedLead}</p>
    ${shownOnce(visit.texts, { id: "api-key", label: words.newKey, text: api_key, file: "api-key.txt" })}
    <p>${
      graceSeconds === 0
        ? words.formerEnded(previous_prefix)
        : html`${words.formerGood(previous_prefix)} ${time(end)} (${countdown(visit, end)})`
    }</p>`;
}
