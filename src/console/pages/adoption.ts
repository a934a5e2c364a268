import { type Html, html } from "../../html/html.ts";
import type { AdoptionAnswer } from "../../platforms/declared/adoption_routes.ts";
import type { Fields } from "../core/forms.ts";
import { type Form, page, type Visit } from "../core/page.ts";
import { textField } from "../elements/fields.ts";
import { form } from "../elements/form.ts";
import { copyBlock, facts, time, titleWith, withNames } from "../elements/values.ts";

const PLACE = ["cluster", "namespace", "name"] as const;

type Shown = { adoption: AdoptionAnswer["adoption"]; mayConfirm: boolean; mayWithdraw: boolean };

/** Returns the object that may adopt an agent or platform, with the forms that the person may use. */
function adoptionForms(visit: Visit, { adoption, mayConfirm, mayWithdraw }: Shown): Html {
  const { adoption: words } = visit.texts;
  return html`${
    adoption === null
      ? html`<p class="quiet">${words.none}</p>`
      : html`<section class="card"><h2>${words.waiting}</h2>
          ${facts([
            ...PLACE.map((name): [string, string] => [words[name], adoption[name]]),
            [words.confirmedAt, time(adoption.confirmed_at)],
            adoption.confirmed_by !== null && [words.confirmedBy, adoption.confirmed_by],
          ])}
          ${mayWithdraw && form(visit, { name: "withdraw", once: true, submit: words.withdraw, tone: "quiet" })}
        </section>`
  }
  ${mayConfirm ? confirming(visit) : html`<p class="quiet">${words.ownersOnly}</p>`}`;
}

function placeIn(fields: Fields): Record<string, string> {
  return Object.fromEntries(PLACE.map((name) => [name, fields.get(name).trim()]));
}

function confirming(visit: Visit): Html {
  const { adoption: words } = visit.texts;
  const hints: Partial<Record<(typeof PLACE)[number], string>> = { cluster: words.clusterHint };
  return html`<section class="card"><h2>${words.confirm}</h2>${form(visit, {
    name: "confirm",
    once: true,
    content: PLACE.map((name) =>
      textField(visit, {
        form: "confirm",
        name,
        label: words[name],
        hint: hints[name],
        attributes: { autocomplete: "off", spellcheck: "false", maxlength: 253 },
      }),
    ),
    submit: words.confirm,
  })}</section>`;
}

type AgentLoaded = Awaited<ReturnType<typeof loadAgent>>;

/** The page on which an owner chooses the cluster object that may adopt an agent. */
export const agentAdoptionPage = page<AgentLoaded>({
  id: "agent_adoption",
  path: "/console/agents/{agent_id}/adoption",
  operations: [
    "get_agent_adoption",
    "confirm_agent_adoption",
    "withdraw_agent_adoption",
    "get_account_agent",
  ],
  load: loadAgent,
  title: ({ texts }, { agent }) => titleWith(texts.adoption.title, agent.name),
  back: ({ at }, { agent }) => ({ to: at(`/agents/${agent.agent_id}`), text: agent.name }),
  render(visit, { agent, adoption }) {
    const words = visit.texts.agent;
    return html`<p class="lead">${withNames(words.adoptionExplain, agent.name)}</p>
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

async function loadAgent(visit: Visit) {
  const agent = await visit.call("get_account_agent", { params: visit.params });
  const { adoption } = await visit.call("get_agent_adoption", { params: idsOf(agent) });
  return { agent, adoption };
}

/** Returns the path parameters of calls about an agent, which include the agent's connection. */
export async function paramsOf({ call, params }: Visit): Promise<Record<string, string>> {
  return idsOf(await call("get_account_agent", { params }));
}

function idsOf({ agent_id, connection_id }: { agent_id: string; connection_id: string }) {
  return { agent_id, connection_id };
}

type PlatformLoaded = Awaited<ReturnType<typeof loadPlatform>>;

/** The page on which an owner chooses the cluster object that may adopt a platform. */
export const platformAdoptionPage = page<PlatformLoaded>({
  id: "platform_adoption",
  path: "/console/platforms/{platform_id}/adoption",
  operations: [
    "get_platform_adoption",
    "confirm_platform_adoption",
    "withdraw_platform_adoption",
    "get_platform",
  ],
  load: loadPlatform,
  title: ({ texts }, { platform }) => titleWith(texts.adoption.title, platform.name),
  back: ({ at }, { platform }) => ({ to: at(`/platforms/${platform.platform_id}`), text: platform.name }),
  render(visit, { platform, adoption }) {
    const words = visit.texts.platforms;
    return html`<p class="lead">${withNames(words.adoptionExplain, platform.name)}</p>
      <p>${words.adoptionSpec}</p>
      ${copyBlock(visit.texts, { id: "adopt", text: `spec:\n  adopt: ${platform.platform_id}` })}
      ${adoptionForms(visit, {
        adoption,
        mayConfirm: visit.may("confirm_platform_adoption"),
        mayWithdraw: visit.may("withdraw_platform_adoption"),
      })}`;
  },
  forms: { confirm: confirmForm(), withdraw: withdrawForm() },
});

async function loadPlatform({ call, params }: Visit) {
  const [platform, { adoption }] = await Promise.all([
    call("get_platform", { params }),
    call("get_platform_adoption", { params }),
  ]);
  return { platform, adoption };
}

function confirmForm(): Form {
  return {
    async submit({ call, params, at }, fields) {
      await call("confirm_platform_adoption", { params, body: placeIn(fields) });
      return { to: at(`/platforms/${params.platform_id}/adoption`), notice: "adoption_confirmed" };
    },
  };
}

function withdrawForm(): Form {
  return {
    async submit({ call, params, at }) {
      await call("withdraw_platform_adoption", { params });
      return { to: at(`/platforms/${params.platform_id}/adoption`), notice: "adoption_withdrawn" };
    },
  };
}
