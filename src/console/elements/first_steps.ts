import { type Html, html } from "../../html/html.ts";
import { curlLine, quoted } from "../../proofs/try/curl.ts";
import type { Answers } from "../core/calls.ts";
import type { Visit } from "../core/page.ts";
import { badge, copyBlock } from "./values.ts";

/** The operations that find out which of the first steps are done. */
export const FIRST_STEP_OPERATIONS = [
  "list_platforms",
  "list_account_agents",
  "list_delegation_requests",
  "export_audit_events",
  "create_account_agent",
] as const;

/** The first steps of an account: its newest object of each kind, and whether a request was approved. */
export type FirstSteps = {
  platform: Answers["list_platforms"]["items"][number] | undefined;
  agent: Answers["list_account_agents"]["items"][number] | undefined;
  request: Answers["list_delegation_requests"]["items"][number] | undefined;
  hasApproved: boolean;
};

/**
 * Loads what the account has done so far. Returns `undefined` if a decision allowed an action, and for people
 * who may not create agents.
 */
export async function loadFirstSteps(
  visit: Visit,
  known: { hasDelegation: boolean; hasAllowed: boolean },
): Promise<FirstSteps | undefined> {
  if (!visit.may("create_account_agent") || known.hasAllowed) return undefined;
  const one = { query: { limit: "1" } };
  const [platforms, agents, requests, allowed] = await Promise.all([
    visit.call("list_platforms", one),
    visit.call("list_account_agents", one),
    visit.call("list_delegation_requests", one),
    visit.call("export_audit_events", { query: { decision: "allow", limit: "1" } }),
  ]);
  if (allowed.events.length > 0) return undefined;
  const request = requests.items[0];
  const hasApproved = known.hasDelegation || request?.status === "approved";
  return { platform: platforms.items[0], agent: agents.items[0], request, hasApproved };
}

type Step = { text: string; isDone: boolean; to: string | undefined; code?: Html };

/** Returns the list of first steps, each with a link to its form, and the calls that do the same. */
export function firstSteps(visit: Visit, steps: FirstSteps | undefined): Html | undefined {
  if (steps === undefined) return undefined;
  const { firstSteps: words } = visit.texts;
  const { platform, agent, request, hasApproved } = steps;
  const list: Step[] = [
    { text: words.platform, isDone: platform !== undefined, to: "/platforms/new" },
    {
      text: words.agent,
      isDone: agent !== undefined,
      to: platform && "/agents",
      ...(platform && { code: agentCode(visit, platform.connection_id) }),
    },
    { text: words.request, isDone: request !== undefined, to: agent && `/agents/${agent.agent_id}/ask` },
    {
      text: words.approve,
      isDone: hasApproved,
      to: request && `/requests/${encodeURIComponent(request.request_id)}`,
    },
    {
      text: words.verify,
      isDone: false,
      to: hasApproved ? "/try" : undefined,
      ...(agent &&
        request && { code: verifyCode(visit, agent.agent_id, request.requested_scope[0] ?? "data:read") }),
    },
  ];
  const next = list.find(({ isDone }) => !isDone);
  return html`<section class="card" aria-labelledby="first-steps"><h2 id="first-steps">${words.title}</h2>
    <p class="quiet">${words.lead}</p>
    <ol class="plain-list">${list.map(
      (step) => html`<li>
        <p>${step === next && step.to !== undefined ? html`<a class="button" href=${visit.at(step.to)}>${step.text}</a>` : step.text}
        ${step.isDone && badge(words.done, "good")}</p>
        ${!step.isDone && step.code}</li>`,
    )}</ol></section>`;
}

/** Returns the calls that create an agent. They contain no key. */
export function agentCode(visit: Visit, connectionId: string): Html {
  const { outside, texts } = visit;
  const url = outside.url(`/v1/service/connections/${connectionId}/agents`);
  const body = { name: "my agent", agent_type: "api_agent" };
  const posted = quoted(JSON.stringify(body));
  const header = outside.header("X-Service-API-Key");
  const program = `await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: { ${JSON.stringify(header)}: process.env.API_KEY, "Content-Type": "application/json" },
  body: JSON.stringify(${JSON.stringify(body)}),
});`;
  return code(texts, "new-agent", curlLine({ url, header, apiKey: "$API_KEY", posted }), program);
}

/** Returns the programs of an application that checks proofs, and of an agent that makes one. */
function verifyCode({ outside, texts }: Visit, agentId: string, scope: string): Html {
  const quotedScope = JSON.stringify(scope);
  const baseUrl = JSON.stringify(outside.url(""));
  const guard = `import { createGuard, guardExpress } from "deputize/guard";
const guard = createGuard({ baseUrl: ${baseUrl}, apiKey: process.env.API_KEY });
app.post("/orders", guardExpress(guard, { requiredScope: ${quotedScope}, operation: true }), handleOrder);`;
  const agent = `import { createAgent } from "deputize/agent";
const agent = createAgent({
  baseUrl: ${baseUrl},
  apiKey: process.env.API_KEY,
  agentId: "${agentId}",
  verifiers: { "http://127.0.0.1:3000": "own" },
});
await agent.fetch("http://127.0.0.1:3000/orders", { scope: ${quotedScope}, body: { item: "coal" } });`;
  const { firstSteps: words } = texts;
  return html`<details><summary>${words.programs}</summary>
    <p>${words.application}</p>${copyBlock(texts, { id: "guard-code", text: guard })}
    <p>${words.actingAgent}</p>${copyBlock(texts, { id: "agent-code", text: agent })}</details>`;
}

function code(texts: Visit["texts"], id: string, curl: string, program: string): Html {
  const { firstSteps: words } = texts;
  return html`<details><summary>${words.calls}</summary>
    <p>${words.curl}</p>${copyBlock(texts, { id, text: curl })}
    <p>${words.typeScript}</p>${copyBlock(texts, { id: `${id}-code`, text: program })}</details>`;
}
