import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { ConnectionAnswer } from "../../../platforms/connections/connection_key_routes.ts";
import { page, type Visit } from "../../core/page.ts";
import { areaField, checkField, textField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { copyable, facts, titleWith, withNames } from "../../elements/values.ts";
import { KEY_OPERATIONS, keyForms, keysSection, listKeys } from "./api_keys.ts";
import { callbackBadge, declaredNote } from "./platform.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about how an application connects to the service: its API keys, its name and its callback. */
export const connectionPage = page<Loaded>({
  id: "connection",
  path: "/console/connections/{connection_id}",
  operations: ["get_connection", "list_agents", ...KEY_OPERATIONS],
  load,
  title: ({ texts }, { connection }) => titleWith(texts.connections.title, connection.platform.name),
  back: ({ at }, { connection: { platform } }) => ({
    to: at(`/platforms/${platform.platform_id}`),
    text: platform.name,
  }),
  render(visit, loaded) {
    const { connection } = loaded;
    return html`<p class="lead">${visit.texts.connections.lead}</p>
      ${declaredNote(visit, connection)}
      ${keysSection(visit, loaded)}${settings(visit, loaded)}
      <div class="cards">${callback(visit, connection)}${removing(visit, connection)}</div>`;
  },
  forms: keyForms,
});

async function load({ call, params, now }: Visit) {
  const [connection, agents, keys] = await Promise.all([
    call("get_connection", { params }),
    call("list_agents", { params, query: { limit: "100" } }),
    listKeys({ call, params, now }),
  ]);
  return { connection, agents, keys };
}

const path = ({ connection_id }: ConnectionAnswer) => `/connections/${connection_id}`;

function settings(visit: Visit, { connection, agents: { items, next_cursor } }: Loaded): Html {
  const words = visit.texts.connections;
  const agents =
    items.length === 0
      ? words.noAgents
      : html`<a href=${visit.at("/agents", { connection_id: connection.connection_id })}>${words.someAgents(items.length, next_cursor !== null)}</a>`;
  return html`<section class="card"><h2>${words.settings}</h2>
    ${facts([
      [words.verifier, html`${connection.verifier_id} <span class="hint">${words.verifierExplain}</span>`],
      [words.registry, connection.registry_answers ? words.registryOn : words.registryOff],
      [
        words.outside,
        connection.outside_verifiers.length === 0 ? words.noOutside : connection.outside_verifiers.join(", "),
      ],
      [words.agents, agents],
      [words.id, copyable(visit.texts, { id: "connection-id", text: connection.connection_id })],
    ])}
    <p class="actions">${visit.may("change_connection") && html`<a href=${visit.at(`${path(connection)}/change`)}>${words.change}</a>`}
      <a href=${visit.at("/history")}>${words.history}</a></p>
  </section>`;
}

function callback(visit: Visit, connection: ConnectionAnswer): Html {
  const words = visit.texts.connections;
  const { callback_url } = connection;
  return html`<section class="card"><h2>${words.callback}</h2>
    <p>${callbackBadge(visit, connection)}</p>
    ${callback_url !== null && html`<p class="mono">${callback_url}</p>`}
    <p class="actions">${visit.may("get_callback") && html`<a href=${visit.at(`${path(connection)}/callback`)}>${words.openCallback}</a>`}
      ${visit.may("list_deliveries") && html`<a href=${visit.at(`${path(connection)}/deliveries`)}>${words.deliveries}</a>`}</p>
  </section>`;
}

function removing(visit: Visit, connection: ConnectionAnswer): Html | undefined {
  const words = visit.texts.connections;
  if (!visit.may("remove_connection")) return undefined;
  return html`<section class="card"><h2>${words.remove}</h2><p class="quiet">${words.removeLead}</p>
    <p><a href=${visit.at(`${path(connection)}/remove`)}>${words.remove}</a></p></section>`;
}

const CHANGE = "change";

/** The page that changes the verifier name in proofs, the outside verifiers, and answers without a proof. */
export const changeConnectionPage = page<ConnectionAnswer>({
  id: "change_connection",
  path: "/console/connections/{connection_id}/change",
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
        name: CHANGE,
        content: html`${textField(visit, {
          form: CHANGE,
          name: "verifier_id",
          label: words.verifier,
          hint: words.verifierHint,
          value: connection.verifier_id,
          attributes: { maxlength: 512, autocomplete: "off", spellcheck: "false" },
        })}
          ${checkField(visit, {
            form: CHANGE,
            name: "registry_answers",
            label: words.registryField,
            hint: words.registryHint,
            value: connection.registry_answers ? "on" : "",
          })}
          ${areaField(visit, {
            form: CHANGE,
            name: "outside_verifiers",
            label: words.outside,
            hint: words.outsideHint,
            value: connection.outside_verifiers.join("\n"),
            required: false,
            attributes: { autocomplete: "off", spellcheck: "false" },
          })}`,
        submit: words.save,
      })
    }`;
  },
  forms: {
    [CHANGE]: {
      async submit({ call, params, at }, fields) {
        const body = {
          verifier_id: fields.get("verifier_id"),
          registry_answers: fields.get("registry_answers") === "on",
          outside_verifiers: linesOf(fields.get("outside_verifiers")),
        };
        await call("change_connection", { params, body });
        return { to: at(`/connections/${params.connection_id}`), notice: "changed" };
      },
    },
  },
});

function linesOf(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

const REMOVE = "remove";

/** The page that removes a connection with its platform. It first shows what the removal stops. */
export const removeConnectionPage = page<ConnectionAnswer>({
  id: "remove_connection",
  path: "/console/connections/{connection_id}/remove",
  operations: ["get_connection", "remove_connection"],
  load: ({ call, params }) => call("get_connection", { params }),
  title: ({ texts }, { platform }) => titleWith(texts.connections.removeTitle, platform.name),
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
          name: REMOVE,
          once: true,
          content: checkField(visit, {
            form: REMOVE,
            name: "sure",
            label: withNames(words.removeSure, platform.name),
            required: true,
          }),
          submit: words.removeSubmit,
          tone: "danger",
        })
      }`;
  },
  forms: {
    [REMOVE]: {
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
