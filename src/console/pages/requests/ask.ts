import { html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { readerOf } from "../../elements/forms/field_reader.ts";
import { boxField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { scopeChoices } from "../../elements/scopes.ts";
import { endFields, readEnd } from "./end_fields.ts";

const FORM = "ask";
const SCOPES = "requested_scope";

/** Asks for authority for an agent, of what its platform may be lent; somebody then decides about it. */
export const askPage = page<Awaited<ReturnType<typeof load>>>({
  id: "ask",
  path: "/console/agents/{agent_id}/ask",
  access: "onboarded",
  operations: ["request_delegation", "get_account_agent", "get_platform", "list_scopes"],
  load,
  title: ({ texts }, { agent }) => texts.ask.title(agent.name),
  back: ({ at }, { agent }) => ({ to: at(`/agents/${agent.agent_id}`), text: agent.name }),
  render(visit, { agent, platform, vocabulary }) {
    const { texts } = visit;
    const words = { vocabulary, platform: agent.platform.name };
    if (platform === undefined) return html`<p>${texts.agent.deletedLead}</p>`;
    return html`<p class="lead">${texts.ask.lead}</p>
      ${form(visit, {
        name: FORM,
        once: true,
        content: html`${boxField(visit, {
          form: FORM,
          name: SCOPES,
          label: texts.request.scopes,
          hint: texts.ask.scopesHint,
          isTicked: false,
          choices: scopeChoices(texts, words, platform.default_allowed_scopes),
        })}
        ${endFields(visit, { form: FORM, label: texts.ask.end, hint: texts.ask.endHint })}`,
        submit: texts.ask.submit,
      })}`;
  },
  forms: {
    [FORM]: {
      errorFields: { invalid_scopes: SCOPES, ceiling_exceeded: SCOPES, invalid_expiry: "end_number" },
      faults: ({ ask }) => ({ [SCOPES]: ask.nothing }),
      async submit(visit, fields) {
        const { call, params, texts, at } = visit;
        const { agent_id, connection_id } = await call("get_account_agent", { params });
        const reader = readerOf(texts, fields);
        const end = readEnd(visit, reader);
        reader.check();
        const requested_scope = fields.all(SCOPES).filter((scope) => scope !== "");
        const body = { connection_id, agent_id, requested_scope, ...end };
        const { request_id } = await call("request_delegation", { body, once: true });
        return { to: at(`/requests/${request_id}`), notice: "asked" };
      },
    },
  },
});

async function load({ call, params }: Visit) {
  const [agent, vocabulary] = await Promise.all([call("get_account_agent", { params }), call("list_scopes")]);
  const { platform_id } = agent.platform;
  const platform =
    agent.disabled_at === null ? await call("get_platform", { params: { platform_id } }) : undefined;
  return { agent, platform, vocabulary };
}
