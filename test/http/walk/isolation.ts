import type { Operation, Schema } from "./openapi_document.ts";

/** An input that may contain an object's id: `path.cert_id`, `body.operation.agent_id`. */
export type IdPlace = { place: string; name: string };

/** Returns every position in an operation's input that may contain an id, derived from the document. */
export function idPlacesOf(operation: Operation): IdPlace[] {
  const parameters = operation.parameters
    .filter((parameter) => parameter.in !== "header" && isId(parameter.name))
    .map((parameter) => ({ place: `${parameter.in}.${parameter.name}`, name: parameter.name }));
  const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
  const places = [...parameters, ...idsIn(schema, "body")];
  return places.filter(({ place }) => !givenNames.includes(`${operation.operationId} ${place}`));
}

/** Names that callers choose for their own objects. They are not ids of existing objects. */
const givenNames: readonly string[] = ["change_connection body.verifier_id"];

function idsIn(schema: Schema, at: string): IdPlace[] {
  const forms = [
    schema,
    ...(schema.anyOf ?? []),
    ...(schema.oneOf ?? []),
    ...(schema.items ? [schema.items] : []),
  ];
  const places = forms.flatMap(({ properties = {} }) =>
    Object.entries(properties).flatMap(([name, member]) => [
      ...(isId(name) ? [{ place: `${at}.${name}`, name }] : []),
      ...idsIn(member, `${at}.${name}`),
    ]),
  );
  return [...new Map(places.map((place) => [place.place, place])).values()];
}

function isId(name: string): boolean {
  return name === "id" || name.endsWith("_id");
}

/**
 * Expected responses to another account's id, if not 404, and why they reveal nothing. `own`: the response to
 * the caller's own id, if that is refused too. `customer`: the response to one customer about another.
 */
export const otherwise: Record<string, { answers: string; own?: string; customer?: string; why: string }> = {
  "accept_principal path.human_id": {
    answers: "200",
    own: "400 invalid_principal",
    why: "whose authority is accepted is the platform's own business",
  },
  "replace_accepted_principals body.accepted_principals.human_id": {
    answers: "200",
    own: "400 invalid_principal",
    why: "whose authority is accepted is the platform's own business",
  },
  "end_accepted_principal path.human_id": {
    answers: "200",
    own: "404",
    why: "whose authority is accepted is the platform's own business",
  },
  ...Object.fromEntries(
    ["get", "narrow", "end"].map((verb) => [
      `${verb}_connected_product path.connection_id`,
      { answers: "404", own: "404", why: "the connection of the caller's own platform is no product" },
    ]),
  ),
  ...Object.fromEntries(
    ["get_customer", "rotate_customer_key", "remove_customer"].flatMap((operation) =>
      ["platform_id", "connection_id"].map((name) => [
        `${operation} path.${name}`,
        { answers: "404", own: "404", why: "the connection of the caller's own platform is no customer" },
      ]),
    ),
  ),
  "get_principal path.human_id": { answers: "200", why: "public keys are public" },
  "get_revocation_list path.human_id": { answers: "200", why: "revocation lists are public" },
  "list_connect_proposals query.proposal_id": { answers: "nothing", why: "a list" },
  "list_delegations query.connection_id": { answers: "nothing", why: "a list" },
  "list_delegations query.agent_id": { answers: "nothing", why: "a list" },
  "list_delegations query.platform_id": { answers: "nothing", why: "a list" },
  "list_account_agents query.platform_id": { answers: "nothing", why: "a list" },
  "list_connected_products query.platform_id": {
    answers: "nothing",
    own: "nothing",
    why: "the caller's own platform is no product",
  },
  "list_account_agents query.connection_id": { answers: "nothing", why: "a list" },
  "list_delegation_requests query.connection_id": { answers: "nothing", why: "a list" },
  "list_delegation_requests query.agent_id": { answers: "nothing", why: "a list" },
  "get_published_platform path.platform_id": {
    answers: "404",
    own: "404",
    why: "a draft is published nowhere",
  },
  "list_customers query.org_id": { answers: "nothing", own: "nothing", customer: "404", why: "a list" },
  "list_organization_activity query.account_id": {
    answers: "nothing",
    own: "nothing",
    why: "a list; the scene's auditor changed nothing",
  },
  "list_audit_events query.agent_id": { answers: "nothing", why: "a list" },
  "list_audit_events query.connection_id": { answers: "nothing", why: "a list" },
  "list_audit_events query.cert_id": { answers: "nothing", why: "a list" },
  "export_audit_events query.agent_id": { answers: "nothing", why: "a list" },
  "export_audit_events query.connection_id": { answers: "nothing", why: "a list" },
  "export_audit_events query.cert_id": { answers: "nothing", why: "a list" },
  "report_outcome body.receipt_id": { answers: "409 outcome_conflict", why: "like any id but the right one" },
  "create_challenge query.verifier_connection_id": {
    answers: "200",
    customer: "404",
    why: "a challenge is no secret, and only the named verifier can use a proof over it",
  },
  "present_proof body.verifier_connection_id": {
    answers: "400 invalid_challenge",
    why: "that connection did not issue the challenge",
  },
  "present_proof body.operation.verifier_id": {
    answers: "200",
    why: "the challenge is the caller's own, so only the caller can use the proof",
  },
  "present_proof body.operation.workspace_id": {
    answers: "200",
    why: "the challenge is the caller's own, so only the caller can use the proof",
  },
  "present_proof body.operation.agent_id": {
    answers: "400 session_context_mismatch",
    why: "it is not the agent of the path",
  },
  "present_proof body.operation.session_id": { answers: "200", why: "the application's own word" },
  "present_proof body.operation.invocation_id": { answers: "200", why: "the application's own word" },
  "present_proof body.operation.resource_id": { answers: "200", why: "the application's own word" },
  ...Object.fromEntries(
    ["verifier_id", "workspace_id", "agent_id", "resource_id"].map((name) => [
      `request_access body.context.operation.${name}`,
      { answers: "400 session_context_mismatch", why: "it is not the refused action" },
    ]),
  ),
  "request_access body.context.operation.session_id": {
    answers: "202",
    own: "202",
    why: "no part of the refused action",
  },
  "request_access body.context.operation.invocation_id": {
    answers: "202",
    own: "202",
    why: "no part of the refused action",
  },
  "verify_proof body.operation.verifier_id": {
    answers: "403 verifier_mismatch",
    why: "like any id but the right one",
  },
  "verify_proof body.operation.workspace_id": {
    answers: "403 verifier_mismatch",
    why: "like any id but the right one",
  },
  "verify_proof body.operation.agent_id": {
    answers: "400 session_context_mismatch",
    why: "it is not the proof's agent",
  },
  "verify_proof body.operation.session_id": {
    answers: "400 session_context_mismatch",
    why: "the application's own word",
  },
  "verify_proof body.operation.invocation_id": {
    answers: "400 session_context_mismatch",
    why: "the application's own word",
  },
  "verify_proof body.operation.resource_id": {
    answers: "400 session_context_mismatch",
    why: "the application's own word",
  },
  "verify_proof body.context.resource_id": {
    answers: "400 invalid_request",
    why: "the operation determines the resource",
  },
  "try_proof body.context.resource_id": { answers: "200", why: "the application's own word" },
  "access_evaluation body.subject.id": { answers: "false", why: "AuthZEN answers false" },
  "access_evaluation body.resource.id": { answers: "false", why: "AuthZEN answers false" },
  "access_evaluations body.subject.id": { answers: "false", why: "AuthZEN answers false" },
  "access_evaluations body.resource.id": { answers: "false", why: "AuthZEN answers false" },
  "access_evaluations body.evaluations.subject.id": { answers: "false", why: "AuthZEN answers false" },
  "access_evaluations body.evaluations.resource.id": { answers: "false", why: "AuthZEN answers false" },
};
