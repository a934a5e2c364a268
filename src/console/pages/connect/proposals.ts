import type { ProposalAnswer } from "../../../connect/proposal_routes.ts";
import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import { page, type Visit } from "../../core/page.ts";
import { boxField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { pager, table } from "../../elements/listing.ts";
import {
  consentChoices,
  isSensitive,
  pickedScopes,
  type ScopeWords,
  scopesInWords,
} from "../../elements/scopes.ts";
import { badge, facts, time, titleOf, withNames } from "../../elements/values.ts";
import { publisherOf } from "./products.ts";

/** The page with the products that members propose to connect, and with approvals in advance. */
export const proposalsPage = page<Awaited<ReturnType<typeof list>>>({
  id: "proposals",
  path: "/console/proposals",
  about: "organization",
  operations: ["list_connect_proposals"],
  load: list,
  title: ({ texts }) => texts.proposals.title,
  back: ({ at, texts }) => ({ to: at("/products"), text: texts.products.title }),
  render(visit, { items, next_cursor }) {
    const words = visit.texts.proposals;
    return html`<p class="lead">${words.lead}</p>
      <section class="card">${table<ProposalAnswer>({
        caption: words.title,
        items,
        empty: words.none,
        columns: [
          {
            label: words.product,
            cell: ({ proposal_id, platform }) =>
              html`<a href=${visit.at(`/proposals/${proposal_id}`)}><bdi>${platform.name}</bdi></a>`,
          },
          { label: words.publisher, cell: publisherOf },
          { label: words.state, cell: ({ state }) => stateBadge(visit, state) },
          { label: words.by, cell: ({ proposed_by }) => proposed_by },
        ],
      })}</section>
      ${pager(visit, next_cursor)}`;
  },
});

async function list({ call, query }: Visit) {
  return call("list_connect_proposals", { query: { cursor: query.cursor } });
}

type Loaded = { proposal: ProposalAnswer; words: ScopeWords; permitted: boolean };

/** The page on which a member who may connect products approves or declines a proposed one. */
export const proposalPage = page<Loaded>({
  id: "proposal",
  path: "/console/proposals/{proposal_id}",
  about: "organization",
  operations: [
    "list_connect_proposals",
    "list_scopes",
    "get_organization",
    "approve_connect_proposal",
    "end_connect_proposal",
  ],
  async load({ call, params, may }) {
    const { proposal_id } = params;
    const [{ items }, vocabulary, organization] = await Promise.all([
      call("list_connect_proposals", { query: { proposal_id } }),
      call("list_scopes"),
      call("get_organization"),
    ]);
    const [proposal] = items;
    if (proposal === undefined) throw new ApiError("not_found");
    const { platform, scope_descriptions: descriptions } = proposal;
    const isByRule = organization.role === "owner" || organization.connecting === "owners_and_approvers";
    return {
      proposal,
      words: { vocabulary, platform: platform.name, descriptions },
      permitted: may("approve_connect_proposal") && isByRule,
    };
  },
  title: (_, { proposal }) => titleOf(proposal.platform.name),
  back: ({ at, texts }) => ({ to: at("/proposals"), text: texts.proposals.title }),
  render: (visit, loaded) => html`${about(visit, loaded)}${approval(visit, loaded)}${ending(visit, loaded)}`,
  forms: {
    approve: {
      errorFields: { invalid_scopes: "scopes", ceiling_exceeded: "scopes" },
      async submit({ call, params, at }, fields) {
        const body = { scopes: pickedScopes(fields, "scopes"), consent_hash: fields.get("consent_hash") };
        await call("approve_connect_proposal", { params, body, once: true });
        return { to: at("/proposals"), notice: "proposal_approved" };
      },
    },
    end: {
      async submit({ call, params, at }) {
        await call("end_connect_proposal", { params, once: true });
        return { to: at("/proposals"), notice: "proposal_ended" };
      },
    },
  },
});

function stateBadge({ texts }: Visit, state: ProposalAnswer["state"]): Html {
  const tones = { proposed: "plain", approved: "good", changed: "warn" } as const;
  return badge(texts.proposals.states[state], tones[state]);
}

function about(visit: Visit, { proposal, words: said }: Loaded): Html {
  const { proposals: words, connect } = visit.texts;
  const { account_label: label, platform, state } = proposal;
  const isOpen = state === "proposed";
  return html`<section class="card"><h2>${words.about}</h2>${facts([
    [words.publisher, publisherOf(proposal)],
    [words.state, stateBadge(visit, state)],
    [words.by, proposal.proposed_by],
    [words.when, time(proposal.created_at)],
    !isOpen && [words.approvedBy, proposal.approved_by],
    [isOpen ? words.lapses : words.ends, time(proposal.expires_at)],
    [words.back, proposal.returns_to],
  ])}
    ${label !== null && html`<p>${withNames(connect.label, platform.name)}: <q><bdi>${label}</bdi></q></p>`}
    ${state === "changed" && html`<p class="notice">${words.changedLead}</p>`}
    <p>${words.lendsNothing}</p>
    ${!isOpen && html`<h3>${words.scopes}</h3>${scopesInWords(visit.texts, said, proposal.scopes)}`}</section>`;
}

function approval(visit: Visit, { proposal, words: said, permitted }: Loaded): Html | undefined {
  const words = visit.texts.proposals;
  if (proposal.state !== "proposed") return undefined;
  if (!permitted) {
    return html`<section class="card"><h2>${words.scopes}</h2>${scopesInWords(visit.texts, said, proposal.scopes)}
      <p class="notice">${words.roleLooks}</p></section>`;
  }
  return html`<section class="card"><h2>${words.approveTitle}</h2><p>${words.approveLead}</p>${form(visit, {
    name: "approve",
    once: true,
    hidden: { consent_hash: proposal.consent_hash },
    content: boxField(visit, {
      form: "approve",
      name: "scopes",
      label: words.scopes,
      hint: words.scopesHint,
      choices: consentChoices(visit.texts, said, proposal.scopes),
      isTicked: (scope) => !isSensitive(said, scope),
    }),
    submit: words.approve,
  })}</section>`;
}

function ending(visit: Visit, { proposal }: Loaded): Html | undefined {
  const words = visit.texts.proposals;
  if (!visit.may("end_connect_proposal")) return undefined;
  const [title, lead] =
    proposal.state === "proposed" ? [words.decline, words.declineLead] : [words.end, words.endLead];
  return html`<section class="card"><h2>${title}</h2><p>${lead}</p>
    ${form(visit, { name: "end", once: true, submit: title, tone: "danger" })}</section>`;
}
