import { z } from "zod";
import { MAX_SCOPES, shownDescriptions } from "../input/platform_fields.ts";
import { oneLine } from "../input/schemas.ts";
import { type Route, route } from "../route.ts";
import { approveConnect, type ConnectDecisionDeps, readConnectRequest } from "./approve_connect.ts";
import { redirectAddress } from "./connect_request.ts";

/** A signed request has at most this many characters. */
const MAX_SIGNED = 8_000;
const params = z.object({
  connect_request: z
    .string()
    .max(MAX_SIGNED)
    .regex(/^[\w-]+\.[\w-]+$/),
});
const PATH = "/v1/service/connect-requests/{connect_request}";

const shownRequest = z.object({
  platform: z.object({ platform_id: z.string(), name: z.string() }),
  publisher: z.object({ name: z.string(), domain: z.string().nullable() }),
  account_label: z.string().nullable(),
  scopes: z.array(z.string()),
  scope_descriptions: shownDescriptions,
  is_test: z.boolean(),
  returns_to: z.string(),
  declines_to: z.string(),
  consent_hash: z.string(),
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
    async handle({ params }) {
      const { request, product, consent, consentHash } = await readConnectRequest(
        deps,
        params.connect_request,
      );
      return {
        body: {
          platform: { platform_id: product.platform_id, name: consent.platform_name },
          publisher: { name: consent.publisher_name, domain: consent.published_domain },
          account_label: consent.account_label,
          scopes: consent.scopes,
          scope_descriptions: consent.scope_descriptions,
          is_test: product.publish_state !== "published",
          returns_to: new URL(request.redirectUri).origin,
          declines_to: redirectAddress(deps.baseUrl, request, { error: "access_denied" }),
          consent_hash: consentHash,
        },
      };
    },
  });
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
    roles: ["approver"],
    params,
    body: z.object({
      scopes: z.array(z.string()).max(MAX_SCOPES),
      shown_name: oneLine(100).optional(),
      consent_hash: z.string(),
    }),
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
