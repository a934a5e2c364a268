import { z } from "zod";
import { findRequest, type RequestRecord } from "../../delegations/delegation_records.ts";
import { decisionPage } from "../../delegations/requests/agent_requests.ts";
import { withdrawRequest } from "../../delegations/requests/decide_request.ts";
import { ApiError } from "../../errors.ts";
import { purposeText } from "../../input/delegation_fields.ts";
import { numberOf } from "../../input/pagination.ts";
import { scopeList } from "../../input/platform_fields.ts";
import { authzenEntity, idText, isoTime, isoTimeInput } from "../../input/schemas.ts";
import { type ApiKeyCaller, type Route, route } from "../../route.ts";
import { operationSchema } from "../operation.ts";
import { type AskDeps, createAsk } from "./ask.ts";
import { createDecisionWaits } from "./waits.ts";

/** The longest wait for a decision, in seconds. It is shorter than the deadline of every call. */
const MAX_WAIT = 10;
const RETRY_SECONDS = "5";

const body = z.object({
  subject: authzenEntity.optional().describe("type: agent; id: the agent, which a full key must name"),
  denial: z.object({ evaluation_id: z.string().min(1).max(8192) }),
  requested_access: z.object({
    scopes: scopeList.describe("With the refused scope"),
    requested_until: isoTimeInput.optional(),
  }),
  context: z.object({
    purpose: purposeText.describe("Why the agent needs it. People read it as the agent's words"),
    operation: operationSchema.optional().describe("The refused action, for the person to read"),
    payload: z.unknown().optional().describe("The action's payload, whose hash is payload_digest"),
  }),
});

const answer = z.object({
  task: z.object({
    id: z.string().describe("The id of the delegation request"),
    status: z.enum(["pending", "approved", "denied", "expired", "cancelled", "failed"]),
    status_endpoint: z.string(),
    expires_at: isoTime,
    links: z.record(z.string(), z.string()).describe("console: the page on which a person decides; cancel"),
  }),
  result: z
    .object({
      mode: z.literal("reevaluate").describe("Present the certificate and call the application again"),
      approval: z.object({
        id: z.string().describe("The certificate"),
        approved_until: isoTime.optional(),
        scopes: z.array(z.string()),
      }),
    })
    .optional()
    .describe("With approved"),
});

/** Dependencies of the routes. `endpoint`: the address of the first one. `root`: the console's address. */
export type AskRoutesDeps = AskDeps & { root: string; endpoint: string };

/** Returns the routes with which an agent asks a person for authority that it lacks. */
export function askRoutes(deps: AskRoutesDeps): Route[] {
  return [askRoute(deps), askedRoute(deps), cancelRoute(deps)];
}

const params = z.object({ task_id: idText });

/** `POST /v1/service/access-requests`: files a request of an agent about a refusal. */
function askRoute(deps: AskRoutesDeps): Route {
  const ask = createAsk(deps);
  return route({
    id: "request_access",
    method: "POST",
    path: "/v1/service/access-requests",
    summary: "Let an agent ask a person for authority that it lacks",
    access: "api_key",
    keyRoles: ["agent"],
    idempotent: true,
    body,
    answer: { status: 202, schema: answer, description: "The request, which a person decides" },
    errors: [
      ...(["not_found", "agent_required", "agent_disabled", "invalid_scopes", "ceiling_exceeded"] as const),
      ...(["invalid_expiry", "session_context_mismatch", "four_eyes_required", "request_limit"] as const),
      ...(["already_delegated", "denied_recently", "forbidden", "rate_limited"] as const),
    ],
    async handle({ caller, body: { subject, denial, requested_access: access, context } }) {
      const row = await ask(caller, {
        agentId: agentOf(caller, subject),
        evaluationId: denial.evaluation_id,
        scopes: access.scopes,
        until: access.requested_until,
        ...context,
      });
      return { body: await readTask(deps, caller, row.request_id) };
    },
  });
}

/** Throws `not_found` for another agent than the key's own. */
function agentOf({ agentId }: ApiKeyCaller, subject: z.infer<typeof body>["subject"]): string {
  const named = subject?.id;
  if (subject !== undefined && subject.type !== "agent") throw new ApiError("not_found");
  if (agentId !== null && named !== undefined && named !== agentId) throw new ApiError("not_found");
  const agent = agentId ?? named;
  if (agent === undefined) throw new ApiError("agent_required", "subject: a full key must name the agent");
  return agent;
}

const query = z.object({
  wait: z
    .preprocess(numberOf, z.int().min(0).max(MAX_WAIT))
    .optional()
    .describe("Seconds to wait for a decision"),
});

/** `GET /v1/service/access-requests/{task_id}`: returns the state of an agent's request. */
function askedRoute(deps: AskRoutesDeps): Route {
  const waits = createDecisionWaits(deps.db);
  return route({
    id: "get_access_request",
    method: "GET",
    path: "/v1/service/access-requests/{task_id}",
    summary: "Read an agent's request, and wait for the decision",
    access: "api_key",
    keyRoles: ["agent"],
    params,
    query,
    answer: {
      status: 200,
      schema: answer,
      description: "The request",
      optionalHeaders: { "Retry-After": "With pending: whole seconds after which the call may be repeated" },
    },
    errors: ["not_found"],
    async handle({ caller, params, query }) {
      const before = await findAsked(deps, caller, params.task_id);
      if (before.status !== "pending") return { body: show(deps, before) };
      const { request_id: requestId, agent_id: agentId } = before;
      const { accountId } = caller;
      await waits.untilDecided({ requestId, agentId, accountId }, query.wait ?? 0);
      const record = await findAsked(deps, caller, params.task_id);
      const headers = record.status === "pending" ? { "retry-after": RETRY_SECONDS } : {};
      return { body: show(deps, record), headers };
    },
  });
}

/** `POST /v1/service/access-requests/{task_id}/cancel`: withdraws an agent's pending request. */
function cancelRoute(deps: AskRoutesDeps): Route {
  return route({
    id: "cancel_access_request",
    method: "POST",
    path: "/v1/service/access-requests/{task_id}/cancel",
    summary: "Withdraw an agent's request",
    access: "api_key",
    keyRoles: ["agent"],
    idempotent: true,
    params,
    answer: { status: 200, schema: answer, description: "The request" },
    errors: ["not_found", "request_not_pending"],
    async handle({ caller, params }) {
      const { request_id, connection_id } = await findAsked(deps, caller, params.task_id);
      await withdrawRequest(deps, { requestId: request_id, connectionId: connection_id });
      return { body: await readTask(deps, caller, request_id) };
    },
  });
}

/** Finds a request that the caller's agent made itself. Throws `not_found`. */
async function findAsked(
  { db, clock }: AskRoutesDeps,
  caller: ApiKeyCaller,
  id: string,
): Promise<RequestRecord> {
  const record = await findRequest(db, caller, id, clock.now());
  if (record.refusal === null) throw new ApiError("not_found");
  return record;
}

async function readTask(deps: AskRoutesDeps, caller: ApiKeyCaller, id: string) {
  return show(deps, await findAsked(deps, caller, id));
}

function show({ root, endpoint }: AskRoutesDeps, record: RequestRecord): z.infer<typeof answer> {
  const { request_id: id, status, cert_id, approved_scope, cert_expires_at } = record;
  const own = `${endpoint}/${id}`;
  return {
    task: {
      id,
      status: status === "withdrawn" ? "cancelled" : status,
      status_endpoint: `${own}?wait=${MAX_WAIT}`,
      expires_at: record.expires_at.toISOString(),
      links: {
        console: decisionPage(root, record),
        ...(status === "pending" ? { cancel: `${own}/cancel` } : {}),
      },
    },
    ...(cert_id !== null && {
      result: {
        mode: "reevaluate" as const,
        approval: {
          id: cert_id,
          ...(cert_expires_at !== null && { approved_until: cert_expires_at.toISOString() }),
          scopes: approved_scope ?? [],
        },
      },
    }),
  };
}
