import { html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { copyBlock } from "../../elements/copyable.ts";
import { adoptionForms, placeIn } from "../../elements/declared/adoption.ts";

type Loaded = Awaited<ReturnType<typeof load>>;

/** Which object of a cluster may take an agent over. */
export const agentAdoptionPage = page<Loaded>({
  id: "agent_adoption",
  path: "/console/agents/{agent_id}/adoption",
  access: "onboarded",
  operations: [
    "get_agent_adoption",
    "confirm_agent_adoption",
    "withdraw_agent_adoption",
    "get_account_agent",
  ],
  load,
  title: ({ texts }, { agent }) => texts.adoption.title(agent.name),
  back: ({ at }, { agent }) => ({ to: at(`/agents/${agent.agent_id}`), text: agent.name }),
  render(visit, { agent, adoption }) {
    const words = visit.texts.agent;
    return html`<p class="lead">${words.adoptionExplain(agent.name)}</p>
      <p>${words.adoptionSpec}</p>
      ${copyBlock(visit.texts, { id: "adopt", text: `spec:\n  adopt: ${agent.agent_id}` })}
      ${adoptionForms(visit, {
        adoption,
        mayConfirm: visit.may("confirm_agent_adoption"),
        mayWithdraw: visit.may("withdraw_agent_adoption"),
      })}`;
  },
  forms: {
    confirm: {
      async submit(visit, fields) {
        const params = await paramsOf(visit);
        await visit.call("confirm_agent_adoption", { params, body: placeIn(fields), once: true });
        return { to: visit.own(visit.path), notice: "agent_adoption_confirmed" };
      },
    },
    withdraw: {
      async submit(visit) {
        await visit.call("withdraw_agent_adoption", { params: await paramsOf(visit), once: true });
        return { to: visit.own(visit.path), notice: "agent_adoption_withdrawn" };
      },
    },
  },
});

async function load(visit: Visit) {
  const agent = await visit.call("get_account_agent", { params: visit.params });
  const { adoption } = await visit.call("get_agent_adoption", { params: idsOf(agent) });
  return { agent, adoption };
}

/** An agent's calls name its connection too. */
export async function paramsOf({ call, params }: Visit): Promise<Record<string, string>> {
  return idsOf(await call("get_account_agent", { params }));
}

function idsOf({ agent_id, connection_id }: { agent_id: string; connection_id: string }) {
  return { agent_id, connection_id };
}
