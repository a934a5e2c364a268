import type { RequestAnswer } from "../../../delegations/delegation_answers.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Constraint } from "../../../protocol/constraints/constraints.ts";
import { page, type Visit } from "../../core/page.ts";
import { constraintsOf, missingIn } from "../../elements/decisions.ts";
import { boxField, choicesOf, selectField, textField } from "../../elements/fields.ts";
import { form, readerOf } from "../../elements/form.ts";
import { limitList } from "../../elements/limits.ts";
import { filterForm, filtersOf, pager, table } from "../../elements/listing.ts";
import { scopeChoices, scopeList } from "../../elements/scopes.ts";
import { badge, type Tone, time, titleWith, withNames } from "../../elements/values.ts";
import { endFields, readEnd } from "./approval_forms.ts";

const TONES: Record<RequestAnswer["status"], Tone> = {
  pending: "warn",
  approved: "good",
  denied: "bad",
  expired: "plain",
  withdrawn: "plain",
};

type Listed = { items: RequestAnswer[]; next_cursor: string | null };

/** The page with the account's requests, newest first. */
export const requestsPage = page<Listed>({
  id: "requests",
  path: "/console/requests",
  operations: ["list_delegation_requests"],
  navigation: { order: 10, label: (texts) => texts.navigation.requests, count: ({ waiting }) => waiting },
  load: (visit) => visit.call("list_delegation_requests", { query: filtersOf(visit, ["status", "cursor"]) }),
  title: ({ texts }) => texts.requests.title,
  render(visit, { items, next_cursor }) {
    const { requests: words } = visit.texts;
    return html`<p class="lead">${words.lead}</p>
      ${visit.may("get_request_channel") && html`<p><a href=${visit.at("/requests/channel")}>${visit.texts.channel.navigation}</a></p>`}
      ${filterForm(visit, {
        label: words.filter,
        content: selectField(visit, {
          form: "filter",
          name: "status",
          label: words.state,
          required: false,
          value: visit.query.status ?? "",
          choices: choicesOf({ "": words.anyState, ...words.states }),
        }),
      })}
      <section class="card">${table({
        caption: words.title,
        columns: [
          { label: words.agent, cell: (request) => agent(visit, request) },
          {
            label: words.scopes,
            cell: ({ requested_scope, scope_descriptions }) => scopeList(requested_scope, scope_descriptions),
          },
          { label: words.asked, cell: ({ created_at }) => time(created_at) },
          { label: words.state, cell: ({ status }) => badge(words.states[status], TONES[status]) },
        ],
        items,
        empty: words.empty,
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

function agent({ at, texts }: Visit, { request_id, agent: { name }, platform }: RequestAnswer): Html {
  return html`<a href=${at(`/requests/${request_id}`)}><bdi>${name}</bdi></a> <span class="quiet">${withNames(texts.requests.of, platform.name)}</span>`;
}

const FORM = "ask";
const SCOPES = "requested_scope";

/** The page that requests a delegation for an agent, within its platform's ceiling. */
export const askPage = page<Awaited<ReturnType<typeof load>>>({
  id: "ask",
  path: "/console/agents/{agent_id}/ask",
  operations: [
    "request_delegation",
    "get_account_agent",
    "get_platform",
    "list_scopes",
    "get_delegation",
    "get_delegation_request",
    "get_audit_event",
  ],
  load,
  title: ({ texts }, { agent }) => titleWith(texts.ask.title, agent.name),
  back: ({ at }, { agent }) => ({ to: at(`/agents/${agent.agent_id}`), text: agent.name }),
  render(visit, { platform, vocabulary, former }) {
    const { texts } = visit;
    if (platform === undefined) return html`<p>${texts.agent.deletedLead}</p>`;
    const words = { vocabulary, platform: platform.name, descriptions: platform.scope_descriptions };
    return html`<p class="lead">${texts.ask.lead}</p>
      ${former && sameLimits(visit, former)}
      ${form(visit, {
        name: FORM,
        once: true,
        content: html`${boxField(visit, {
          form: FORM,
          name: SCOPES,
          label: texts.ask.scopes,
          hint: texts.ask.scopesHint,
          isTicked: (scope) => former?.scopes.includes(scope) ?? false,
          choices: scopeChoices(texts, words, platform.default_allowed_scopes),
        })}
        ${textField(visit, {
          form: FORM,
          name: "purpose",
          label: texts.ask.purpose,
          hint: texts.ask.purposeHint,
          value: former?.purpose ?? "",
          required: false,
          attributes: { maxlength: 300 },
        })}
        ${endFields(visit, { form: FORM, label: texts.ask.end, hint: texts.ask.endHint, ...former?.end })}`,
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
        const purpose = fields.get("purpose").trim();
        const { constraints = [] } = (await formerOf(visit)) ?? {};
        const body = {
          connection_id,
          agent_id,
          requested_scope,
          ...(purpose !== "" && { purpose }),
          ...(constraints.length > 0 && { constraints }),
          ...end,
        };
        const { request_id } = await call("request_delegation", { body, once: true });
        return { to: at(`/requests/${request_id}`), notice: "asked" };
      },
    },
  },
});

async function load(visit: Visit) {
  const { call, params } = visit;
  const [agent, vocabulary, former] = await Promise.all([
    call("get_account_agent", { params }),
    call("list_scopes"),
    formerOf(visit),
  ]);
  const { platform_id } = agent.platform;
  const platform =
    agent.disabled_at === null ? await call("get_platform", { params: { platform_id } }) : undefined;
  return { agent, platform, vocabulary, former };
}

/**
 * Returns what a former delegation to the same agent allowed, if the page's address names the delegation or
 * a denial. For a denial, also returns what was missing.
 */
async function formerOf({ call, params, query: { again, denied } }: Visit) {
  const event = denied ? await call("get_audit_event", { params: { event_id: denied } }) : undefined;
  const certId = event?.cert_id ?? again;
  if (!certId) return undefined;
  const certificate = await call("get_delegation", { params: { cert_id: certId } });
  const { request_id, approved_scope, issued_at, expires_at, agent_id } = certificate;
  if (agent_id !== params.agent_id) throw new ApiError("not_found");
  const { purpose } = await call("get_delegation_request", { params: { request_id } });
  const seconds =
    expires_at === null ? 0 : Math.round((Date.parse(expires_at) - Date.parse(issued_at)) / 1000);
  const unit = [86_400, 3_600].find((length) => seconds % length === 0) ?? 60;
  const end = seconds < unit ? {} : { value: String(Math.floor(seconds / unit)), unit };
  const constraints = constraintsOf(certificate);
  const missing = missingIn(event, { scopes: approved_scope, constraints });
  return { ...missing, purpose, end, isWidened: event !== undefined };
}

type Former = { constraints: Constraint[]; isWidened: boolean };

/** Returns a note that the request will have the limits of the former delegation. */
function sameLimits({ texts }: Visit, { constraints, isWidened }: Former): Html | undefined {
  if (constraints.length === 0) return undefined;
  return html`<section class="card"><p>${isWidened ? texts.ask.widenedLimits : texts.ask.sameLimits}</p>${limitList(texts, constraints)}</section>`;
}
