import { z } from "zod";
import { mayConnect, mayPropose } from "../accounts/member_role.ts";
import { oneLine } from "../input/schemas.ts";
import { coversScopes } from "../protocol/documents/scopes.ts";
import { type Route, route, type SessionCaller } from "../route.ts";
import { coversRequest, findLiveConnection, type LiveConnection } from "./approvals.ts";
import {
  approveConnect,
  type ConnectDecisionDeps,
  isOfPublisher,
  readConnectRequest,
  type ShownRequest,
} from "./approve_connect.ts";
import { MAX_SIGNED, redirectAddress } from "./connect_request.ts";
import { decisionBody, shownWords, showWords } from "./consent.ts";
import { memberOf, proposeConnect, selectProposals } from "./proposals.ts";

const params = z.object({
  connect_request: z
    .string()
    .max(MAX_SIGNED)
    .regex(/^[\w-]+\.[\w-]+$/),
});
const PATH = "/v1/service/connect-requests/{connect_request}";

const shownRequest = z.object({
  ...shownWords,
  is_test: z.boolean(),
  returns_to: z.string(),
  declines_to: z.string(),
  consent_hash: z.string(),
  permission: z.enum(["connect", "connect_approved", "propose", "read"]),
  approved_scopes: z.array(z.string()).nullable(),
  approved_by: z.string().nullable(),
  shown_name: z.string().nullable(),
});

/** A product's request to connect a customer, as a person sees it. */
export type ConnectRequestAnswer = z.infer<typeof shownRequest>;

/** `GET …/connect-requests/{connect_request}`: what a person reads before they decide. */
export function connectRequestRoute(deps: ConnectDecisionDeps): Route {
  return route({
    id: "get_connect_request",
    method: "GET",
    path: PATH,
    summary: "Read a product's request",
    access: "session",
    roles: ["approver", "developer", "auditor"],
    params,
    answer: { status: 200, schema: shownRequest, description: "The request" },
    errors: ["not_found", "invalid_redirect_uri"],
    async handle({ caller, params }) {
      const shown = await readConnectRequest(deps, params.connect_request);
      const { request, product, consent, consentHash } = shown;
      const { accountId } = caller;
      const live = await findLiveConnection(deps.db, { accountId, platformId: product.platform_id });
      return {
        body: {
          ...showWords(product.platform_id, consent),
          is_test: product.publish_state !== "published",
          returns_to: new URL(request.redirectUri).origin,
          declines_to: redirectAddress(deps.baseUrl, request, { error: "access_denied" }),
          consent_hash: consentHash,
          ...(await readPermission(deps, caller, { ...shown, live })),
          shown_name: live?.shownName ?? null,
        },
      };
    },
  });
}

/** The decisions that a person may make about a request, as the page shows them. */
type Permission = {
  permission: "connect" | "connect_approved" | "propose" | "read";
  /** The approved scopes of the request, and the address of the member who approved them. */
  approved_scopes: string[] | null;
  approved_by: string | null;
};

/**
 * Returns how a person may decide about a request for the account that they act for. The decision itself
 * checks it again. Only an approval that is in force, and whose words are still those of the product, counts.
 * An approval takes no scopes away from the `live` connection, so a request for fewer is only read.
 */
async function readPermission(
  { db, clock }: ConnectDecisionDeps,
  { accountId, person: { role, accountId: personId } }: Pick<SessionCaller, "accountId" | "person">,
  { request, product, consent, live }: ShownRequest & { live: LiveConnection | undefined },
): Promise<Permission> {
  const none = { approved_scopes: null, approved_by: null };
  const account = await db("accounts").where({ account_id: accountId }).first("connecting");
  const held = { role, connecting: account?.connecting ?? "owners" };
  const isTest = product.publish_state !== "published";
  if (isTest && !(await isOfPublisher(db, product, personId))) return { permission: "read", ...none };
  if (mayConnect(held)) return { permission: "connect", ...none };
  const isProposable = !isTest && product.account_id !== accountId;
  const isFewer = (scopes: string[]) => coversScopes(scopes, live?.heldScopes ?? []).length > 0;
  if (!mayPropose(held) || !isProposable || isFewer(consent.scopes)) return { permission: "read", ...none };
  const [approval] = await selectProposals(db, { accountId, now: clock.now() })
    .where({ "p.platform_id": product.platform_id })
    .whereNotNull("p.approved_at");
  const scopes = consent.scopes.filter((scope) => coversScopes(approval?.scopes ?? [], [scope]).length === 0);
  const asked = { redirectUri: request.redirectUri, consent, scopes };
  if (!approval || scopes.length === 0 || isFewer(scopes) || !coversRequest(approval, asked)) {
    return { permission: "propose", ...none };
  }
  const { approved_by } = approval;
  return { permission: "connect_approved", approved_scopes: scopes, approved_by };
}

const decided = z.object({ redirect_to: z.string() });

/** `POST …/connect-requests/{connect_request}/approve`: lets a product connect to the account. */
export function approveConnectRoute(deps: ConnectDecisionDeps): Route {
  return route({
    id: "approve_connect_request",
    method: "POST",
    path: `${PATH}/approve`,
    summary: "Connect a product to the account",
    access: "session",
    roles: ["approver", "developer"],
    params,
    body: decisionBody.extend({ shown_name: oneLine(100).optional() }),
    answer: { status: 200, schema: decided, description: "The way back" },
    errors: ["not_found", "invalid_redirect_uri", "invalid_scopes", "ceiling_exceeded"],
    async handle({ caller, params, body }) {
      const { scopes, shown_name: shownName, consent_hash: consentHash } = body;
      const choice = { accountId: caller.accountId, scopes, consentHash, ...(shownName && { shownName }) };
      return {
        body: { redirect_to: await approveConnect(deps, caller.person, params.connect_request, choice) },
      };
    },
  });
}

/** `POST …/connect-requests/{connect_request}/propose`: proposes a product to those who may connect it. */
export function proposeConnectRoute(deps: ConnectDecisionDeps): Route {
  return route({
    id: "propose_connect_request",
    method: "POST",
    path: `${PATH}/propose`,
    summary: "Propose a product to those who may connect it",
    access: "session",
    roles: ["approver", "developer"],
    idempotent: true,
    params,
    body: decisionBody,
    answer: { status: 200, schema: decided, description: "The way back" },
    errors: ["not_found", "invalid_redirect_uri", "invalid_scopes", "ceiling_exceeded", "request_limit"],
    async handle({ caller, params, body }) {
      const choice = { scopes: body.scopes, consentHash: body.consent_hash };
      const proposed = await proposeConnect(deps, memberOf(caller), params.connect_request, choice);
      return { body: { redirect_to: proposed.redirectTo }, activityDetails: proposed.proposal };
    },
  });
}
