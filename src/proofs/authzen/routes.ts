import { z } from "zod";
import { rootOf } from "../../input/url.ts";
import { type Route, route } from "../../route.ts";
import { readMembers } from "../verify/call.ts";
import { type EvaluateDeps, evaluate, evaluationAnswer, evaluationBody } from "./evaluation.ts";
import { evaluateAll, evaluationsBody, readBatch } from "./evaluations.ts";

/** JSON levels between a body and its proof, in `context.proof_bundle` of the body or of an evaluation. */
const [LEVELS_OF_ONE, LEVELS_OF_MANY] = [2, 4];

/** `POST /access/v1/evaluation` (AuthZEN 1.0): answers one question. */
export function evaluationRoute(deps: EvaluateDeps): Route {
  return route({
    id: "access_evaluation",
    method: "POST",
    path: "/access/v1/evaluation",
    summary: "Answer one AuthZEN question: with a proof as verify does, without one from the registry",
    access: "api_key",
    keyRoles: ["verify"],
    authorizationHeader: true,
    body: evaluationBody as unknown as z.ZodType<Buffer>,
    bodyForm: "raw",
    answer: { status: 200, schema: evaluationAnswer, description: "The answer" },
    errors: ["credits_exhausted", "rate_limited"],
    handle: async ({ caller, body }) => ({
      body: await evaluate(deps, caller, {
        members: readMembers(body, { levels: LEVELS_OF_ONE, memo: deps.verify.memory.recent }),
        bodyBytes: body.length,
      }),
    }),
  });
}

const answers = z.union([z.object({ evaluations: z.array(evaluationAnswer) }), evaluationAnswer]);

/** `POST /access/v1/evaluations` (AuthZEN 1.0): answers a list of questions, or the body as one question. */
export function evaluationsRoute(deps: EvaluateDeps): Route {
  return route({
    id: "access_evaluations",
    method: "POST",
    path: "/access/v1/evaluations",
    summary: "Answer several AuthZEN questions; an item that has no answer is false",
    access: "api_key",
    keyRoles: ["verify"],
    authorizationHeader: true,
    body: evaluationsBody as unknown as z.ZodType<Buffer>,
    bodyForm: "raw",
    answer: { status: 200, schema: answers, description: "The answers, in the items' order" },
    errors: ["credits_exhausted", "rate_limited"],
    async handle({ caller, body }) {
      const members = readMembers(body, { levels: LEVELS_OF_MANY, memo: deps.verify.memory.recent });
      const batch = readBatch(members);
      const bodyBytes = body.length;
      if (batch === undefined) return { body: await evaluate(deps, caller, { members, bodyBytes }) };
      return { body: { evaluations: await evaluateAll(deps, caller, batch, bodyBytes) } };
    },
  });
}

const metadata = z.object({
  policy_decision_point: z.string(),
  access_evaluation_endpoint: z.string(),
  access_evaluations_endpoint: z.string(),
  access_request_endpoint: z.string(),
});

const WELL_KNOWN = "/.well-known/authzen-configuration";

/**
 * `GET /.well-known/authzen-configuration`: the URLs of the AuthZEN endpoints. The URLs come from the
 * configured base URL only, never from the request. `policy_decision_point` is the base URL exactly as
 * configured, because a client must refuse any other value (AuthZEN 1.0 §9.2.3).
 *
 * If the base URL has a path, `/.well-known/authzen-configuration` comes before it (§9.2.1), and a proxy
 * forwards this URL unchanged. The route also serves the document without the path, and with the path first,
 * for proxies that strip or keep the path that they forward.
 */
export function authzenMetadataRoute(baseUrl: string, askEndpoint: string): Route {
  const base = rootOf(baseUrl);
  const path = URL.parse(base)?.pathname.replace(/\/+$/, "") ?? "";
  return route({
    id: "authzen_configuration",
    method: "GET",
    path: WELL_KNOWN,
    ...(path === "" ? {} : { alsoAt: [`${WELL_KNOWN}${path}`, `${path}${WELL_KNOWN}`] }),
    summary: "Find the AuthZEN endpoints",
    access: "public",
    answer: { status: 200, schema: metadata, description: "AuthZEN 1.0 metadata" },
    errors: [],
    handle: async () => ({
      body: {
        policy_decision_point: baseUrl,
        access_evaluation_endpoint: `${base}/access/v1/evaluation`,
        access_evaluations_endpoint: `${base}/access/v1/evaluations`,
        access_request_endpoint: askEndpoint,
      },
    }),
  });
}
