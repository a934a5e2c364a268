import { ApiError } from "../../../errors.ts";
import { html } from "../../../html/html.ts";
import type { AccountAgentAnswer } from "../../../platforms/agents/account_agents_routes.ts";
import { page } from "../../core/page.ts";
import { objectName } from "../../elements/declared/object_name.ts";
import { checkField } from "../../elements/forms/fields.ts";
import { form } from "../../elements/forms/form.ts";
import { paramsOf } from "./adoption.ts";

/** Deletes an agent, once it is said what that ends. */
export const deleteAgentPage = page<AccountAgentAnswer>({
  id: "delete_agent",
  path: "/console/agents/{agent_id}/delete",
  access: "onboarded",
  operations: ["delete_agent", "get_account_agent"],
  load: ({ call, params }) => call("get_account_agent", { params }),
  title: ({ texts }, { name }) => texts.agent.removeTitle(name),
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
          label: words.removeSure(name),
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
