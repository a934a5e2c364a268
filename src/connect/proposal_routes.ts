import { z } from "zod";
import type { Consent } from "../db/key_tables.ts";
import { ApiError } from "../errors.ts";
import { isUuid } from "../ids.ts";
import { pageOf, pageQuery, readPage } from "../input/pagination.ts";
import { idText, isoTime } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import type { ConnectDecisionDeps } from "./approve_connect.ts";
import { findProduct, type Product } from "./connect_request.ts";
import { consentOf, decisionBody, isSameWords, shownWords, showWords } from "./consent.ts";
import {
  approveProposal,
  endProposal,
  hashProposal,
  memberOf,
  type ProposalRecord,
  selectProposals,
} from "./proposals.ts";

const PATH = "/v1/service/connect-proposals";
const ONE = `${PATH}/{proposal_id}`;
const params = z.object({ proposal_id: idText });

const shown = z.object({
  proposal_id: z.string(),
  state: z.enum(["proposed", "approved", "changed"]),
  ...shownWords,
  returns_to: z.string(),
  created_at: isoTime,
  proposed_by: z.string().nullable(),
  approved_at: isoTime.nullable(),
  approved_by: z.string().nullable(),
  expires_at: isoTime,
  consent_hash: z.string(),
});

const decided = z.object({ proposal_id: z.string() });

/** A proposal to connect a product, or its approval, as the API returns it. */
export type ProposalAnswer = z.infer<typeof shown>;

type Deps = Pick<ConnectDecisionDeps, "db" | "clock">;

/** Returns the operations on proposals to connect products, and on approvals in advance. */
export function proposalRoutes(deps: Deps): Route[] {
  return [listRoute(deps), approveRoute(deps), endRoute(deps)];
}

function listRoute(deps: Deps): Route {
  return route({
    id: "list_connect_proposals",
    method: "GET",
    path: PATH,
    summary: "List proposed and approved products",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    query: pageQuery.extend({ proposal_id: z.guid().optional() }),
    answer: { status: 200, schema: pageOf(shown), description: "Newest first" },
    errors: [],
    async handle({ caller: { accountId }, query }) {
      const order = { time: "p.created_at", id: "p.proposal_id", isId: isUuid };
      const found = selectProposals(deps.db, { accountId, now: deps.clock.now() });
      if (query.proposal_id !== undefined) found.where({ "p.proposal_id": query.proposal_id });
      const { rows, next_cursor } = await readPage<ProposalRecord>(found, order, query);
      const items = await Promise.all(rows.map((row) => show(deps, row)));
      return { body: { items: items.filter((item) => item !== undefined), next_cursor } };
    },
  });
}

function approveRoute(deps: Deps): Route {
  return route({
    id: "approve_connect_proposal",
    method: "POST",
    path: `${ONE}/approve`,
    summary: "Let developers connect a proposed product",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params,
    body: decisionBody,
    answer: { status: 200, schema: decided, description: "The approval" },
    errors: ["not_found", "invalid_redirect_uri", "invalid_scopes", "ceiling_exceeded"],
    async handle({ caller, params: { proposal_id: id }, body }) {
      const choice = { scopes: body.scopes, consentHash: body.consent_hash };
      const activityDetails = await approveProposal(deps, memberOf(caller), known(id), choice);
      return { body: { proposal_id: id }, activityDetails };
    },
  });
}

function endRoute(deps: Deps): Route {
  return route({
    id: "end_connect_proposal",
    method: "DELETE",
    path: ONE,
    summary: "Decline a proposed product, or end its approval",
    access: "session",
    roles: ["approver"],
    idempotent: true,
    params,
    answer: { status: 200, schema: decided, description: "It has ended" },
    errors: ["not_found"],
    async handle({ caller, params: { proposal_id } }) {
      const activityDetails = await endProposal(deps, memberOf(caller), known(proposal_id));
      return { body: { proposal_id }, activityDetails };
    },
  });
}

function known(proposalId: string): string {
  if (!isUuid(proposalId)) throw new ApiError("not_found");
  return proposalId;
}

/** Returns a proposal with the product's present words. `undefined`: the platform was removed just now. */
async function show({ db }: Deps, row: ProposalRecord): Promise<ProposalAnswer | undefined> {
  const product = await findProduct(db, row.platform_id);
  if (product === undefined) return undefined;
  const { scopes, account_label: accountLabel } = row;
  const consent = await consentOf(db, product, { scopes, accountLabel });
  return {
    proposal_id: row.proposal_id,
    state: stateOf(row, product, consent),
    ...showWords(product.platform_id, consent),
    returns_to: new URL(row.redirect_uri).origin,
    created_at: row.created_at.toISOString(),
    proposed_by: row.proposed_by,
    approved_at: row.approved_at?.toISOString() ?? null,
    approved_by: row.approved_by,
    expires_at: row.expires_at.toISOString(),
    consent_hash: hashProposal(consent, row),
  };
}

function stateOf({ consent, redirect_uri, scopes }: ProposalRecord, product: Product, now: Consent) {
  if (consent === null) return "proposed";
  const isSame = product.redirect_uris.includes(redirect_uri) && isSameWords(consent, now, scopes);
  return isSame ? "approved" : "changed";
}
