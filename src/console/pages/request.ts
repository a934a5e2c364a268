import type { RequestAnswer } from "../../delegations/answers.ts";
import { type Html, html } from "../../html/html.ts";
import { page, type Visit } from "../core/page.ts";
import { boxField, form, textField } from "../elements/form.ts";
import { scopeList } from "../elements/scopes.ts";
import { time } from "../elements/time.ts";

/** A request: what is asked for, and the decision about it. The operator's messages lead here. */
export const requestPage = page<RequestAnswer>({
  id: "request",
  path: "/console/requests/{request_id}",
  access: "onboarded",
  operations: ["get_delegation_request", "approve_delegation_request", "deny_delegation_request"],
  load: ({ call, params }) => call("get_delegation_request", { params }),
  title: ({ texts }, { status }) => texts.request.title[status],
  render: (visit, request) =>
    html`${facts(visit, request)}${
      request.status === "pending" ? decision(visit, request) : scopeList(request.approved_scope ?? [])
    }`,
  forms: {
    approve: {
      errorFields: { scope_not_requested: "approved_scope", ceiling_exceeded: "approved_scope" },
      async submit({ call, params, at }, fields) {
        const body = { approved_scope: fields.all("approved_scope") };
        await call("approve_delegation_request", { params, body, once: true });
        return { to: at("/"), notice: "approved" };
      },
    },
    deny: {
      async submit({ call, params, at }, fields) {
        const reason = fields.get("reason").trim();
        await call("deny_delegation_request", { params, body: reason === "" ? {} : { reason }, once: true });
        return { to: at("/"), notice: "denied" };
      },
    },
  },
});

function facts({ texts }: Visit, request: RequestAnswer): Html {
  const words = texts.request;
  const ends =
    request.requested_expires_at !== null
      ? time(request.requested_expires_at)
      : words.lasting(request.requested_expires_in);
  return html`<section class="card"><dl class="facts">
    <dt>${words.agent}</dt><dd class="mono">${request.agent_id}</dd>
    ${request.reason !== null && html`<dt>${words.reason}</dt><dd>${request.reason}</dd>`}
    <dt>${words.asked}</dt><dd>${time(request.created_at)}</dd>
    <dt>${words.ends}</dt><dd>${ends}</dd>
    ${request.constraints.length > 0 && html`<dt>${words.constraints}</dt><dd><pre>${JSON.stringify(request.constraints, null, 2)}</pre></dd>`}
    ${request.decided_at !== null && html`<dt>${words.decided}</dt><dd>${time(request.decided_at)}, ${request.decided_by}</dd>`}
  </dl></section>`;
}

function decision(visit: Visit, request: RequestAnswer): Html {
  const words = visit.texts.request;
  return html`<section class="card"><h2>${words.approveTitle}</h2>${form(visit, {
    name: "approve",
    once: true,
    content: boxField(visit, {
      form: "approve",
      name: "approved_scope",
      label: words.scopes,
      hint: words.scopesHint,
      choices: request.requested_scope.map((scope) => ({ value: scope, label: scope })),
    }),
    submit: words.approve,
  })}</section>
  <section class="card"><h2>${words.denyTitle}</h2>${form(visit, {
    name: "deny",
    once: true,
    content: textField(visit, {
      form: "deny",
      name: "reason",
      label: words.denyReason,
      hint: words.denyHint,
      required: false,
      attributes: { maxlength: 500 },
    }),
    submit: words.deny,
    tone: "danger",
  })}</section>`;
}
