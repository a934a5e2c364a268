import { ApiError } from "../../errors.ts";
import { type Html, html } from "../../html/html.ts";
import type { AccountAgentAnswer } from "../../platforms/agents/account_agents_routes.ts";
import { page, type Visit } from "../core/page.ts";
import { delegationTable } from "../elements/delegations.ts";
import { checkField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { copyable, facts, objectName, time, titleOf, titleWith, withNames } from "../elements/values.ts";
import { paramsOf } from "./adoption.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** The page about one agent: its platform, its key and its delegations. */
export const agentPage = page<Loaded>({
  id: "agent",
  path: "/console/agents/{agent_id}",
  operations: ["get_account_agent", "list_delegations", "delete_agent", "request_delegation"],
  load,
  title: (_visit, { agent }) => titleOf(agent.name),
  back: ({ at, texts }) => ({ to: at("/agents"), text: texts.agents.title }),
  render(visit, loaded) {
    const words = visit.texts.agent;
    const { agent } = loaded;
    return html`<p class="lead">${agent.disabled_at === null ? withNames(words.lead, agent.platform.name) : words.deletedLead}</p>
      ${about(visit, agent)}
      ${lent(visit, loaded)}
      ${agent.disabled_at === null && adoption(visit, agent)}`;
  },
});

async function load({ call, params }: Visit) {
  const [agent, delegations] = await Promise.all([
    call("get_account_agent", { params }),
    call("list_delegations", { query: { agent_id: params.agent_id, limit: "10" } }),
  ]);
  return { agent, delegations };
}

function about(visit: Visit, agent: AccountAgentAnswer): Html {
  const { texts, at } = visit;
  const words = texts.agent;
  const { platform, declared_by, disabled_at } = agent;
  const mayDelete = visit.may("delete_agent") && disabled_at === null;
  return html`<section class="card"><h2>${words.about}</h2>${facts([
    [
      words.platform,
      html`<a href=${at(`/platforms/${platform.platform_id}`)}><bdi>${platform.name}</bdi></a>`,
    ],
    disabled_at === null && [
      words.connection,
      html`<a href=${at(`/connections/${agent.connection_id}`)}>${words.toConnection}</a>`,
    ],
    [words.type, agent.agent_type],
    [
      words.key,
      html`<span class="mono">${agent.key_fingerprint}</span> <span class="quiet">${words.custody[agent.custody_mode]}</span>`,
    ],
    declared_by !== null && [
      words.declared,
      words.declaredBy(objectName(declared_by), declared_by.cluster_id),
    ],
    [words.made, time(agent.created_at)],
    disabled_at !== null && [words.deletedAt, time(disabled_at)],
    [words.id, copyable(texts, { id: "agent-id", text: agent.agent_id })],
  ])}
  ${mayDelete && html`<p class="actions"><a class="button danger" href=${at(`/agents/${agent.agent_id}/delete`)}>${words.remove}</a></p>`}
  </section>`;
}

function lent(visit: Visit, { agent, delegations: { items } }: Loaded): Html {
  const words = visit.texts.agent;
  const of = { agent_id: agent.agent_id };
  return html`<section class="card"><h2>${words.delegations}</h2>
    ${delegationTable(visit, items, words.noDelegations)}
    ${
      agent.disabled_at === null &&
      visit.may("request_delegation") &&
      html`<p class="actions"><a class="button" href=${visit.at(`/agents/${agent.agent_id}/ask`)}>${visit.texts.ask.link}</a></p>`
    }
    ${
      items.length > 0 &&
      html`<p class="actions"><a href=${visit.at("/delegations", of)}>${words.allDelegations}</a>
      <a href=${visit.at("/history", of)}>${words.history}</a></p>`
    }</section>`;
}

function adoption(visit: Visit, { agent_id, declared_by }: AccountAgentAnswer): Html | undefined {
  const words = visit.texts.agent;
  if (declared_by !== null) return undefined;
  return html`<section class="card"><h2>${visit.texts.adoption.about}</h2><p class="quiet">${words.adoptionLead}</p>
    <p><a href=${visit.at(`/agents/${agent_id}/adoption`)}>${visit.texts.adoption.link}</a></p></section>`;
}

/** The page that deletes an agent. It first shows what the deletion stops. */
export const deleteAgentPage = page<AccountAgentAnswer>({
  id: "delete_agent",
  path: "/console/agents/{agent_id}/delete",
  operations: ["delete_agent", "get_account_agent"],
  load: ({ call, params }) => call("get_account_agent", { params }),
  title: ({ texts }, { name }) => titleWith(texts.agent.removeTitle, name),
  back: ({ at }, { agent_id, name }) => ({ to: at(`/agents/${agent_id}`), text: name }),
  render(visit, { name, active_delegations, declared_by, disabled_at }) {
    const words = visit.texts.agent;
    if (disabled_at !== null) return html`<p>${words.already}</p>`;
    return html`
      ${declared_by !== null && html`<p class="notice">${words.removeDeclared(objectName(declared_by), declared_by.cluster_id)}</p>`}
      <p class="lead">${words.removeLead}</p>
      <ul>${words.removes(active_delegations).map((each) => html`<li>${each}</li>`)}</ul>
      <p>${words.keeps}</p>
      ${form(visit, {
        name: "delete",
        once: true,
        content: checkField(visit, {
          form: "delete",
          name: "sure",
          label: withNames(words.removeSure, name),
          required: true,
        }),
        submit: words.removeSubmit,
        tone: "danger",
      })}`;
  },
  forms: {
    delete: {
      async submit(visit, fields) {
        if (fields.get("sure") !== "on") {
          throw new ApiError("invalid_request", `body.sure: ${visit.texts.agent.removeNotSure}`);
        }
        await visit.call("delete_agent", { params: await paramsOf(visit), once: true });
        return { to: visit.at(`/agents/${visit.params.agent_id}`), notice: "agent_deleted" };
      },
    },
  },
});
