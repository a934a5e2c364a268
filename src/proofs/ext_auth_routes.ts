import { z } from "zod";
import { ApiError } from "../errors.ts";
import { type ApiKeyCaller, allowsKey, type Call, type NarrowRole, type Route, route } from "../route.ts";
import type { FairQueue } from "./admission/fair_queue.ts";
import type { Receipt } from "./decide/decision_receipt.ts";
import { PROOF_HEADER, readProof, verifyOptions } from "./verify/call.ts";
import { type VerifyDeps, verifyProof } from "./verify/verify_proof.ts";

const KEY_ROLES: readonly NarrowRole[] = ["verify"];
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
const SCOPE_HEADER = "x-service-required-scope";

const answer = z.object({ decision: z.string(), decision_reason: z.string() });

const NOTES = {
  "X-Service-Decision": "allow, deny, refuse, indeterminate or none",
  "X-Service-Decision-Reason": "The decision's reason, or an error code without a decision",
};
const AUTHORITY_NOTES = {
  "X-Service-Human-Id": "With a decision: the account root on whose authority the agent acts",
  "X-Service-Agent-Id": "With a decision: the agent that proved the authority",
  "X-Service-Cert-Id":
    "With a decision: the agent's certificate, if its id is up to 128 visible ASCII characters",
  "X-Service-Receipt-Id": "With a decision: its receipt",
};
const HEADERS = { headers: NOTES, optionalHeaders: AUTHORITY_NOTES };

type HookCall = Call<"public", { target?: string } | undefined, unknown, unknown>;

/** Dependencies of the gateway hook. `word` is the service's name in the hook's response headers. */
export type ExtAuthDeps = {
  verify: VerifyDeps;
  queue: FairQueue;
  findApiKey(presented: string): Promise<ApiKeyCaller | undefined>;
  word: string;
};

/**
 * Returns the routes of the hook that gateways call before they forward a request (nginx `auth_request`,
 * Traefik ForwardAuth, Envoy HTTP ext_authz). The gateway sends the proof in `X-Service-Proof`, and the
 * response status is the answer. The required scope is the first path segment after `ext-auth/`, which the
 * gateway's own configuration fixes. Without that segment, the header `X-Service-Required-Scope` contains the
 * required scope. The gateway must then set that header itself, as it must set the API key. All methods
 * behave alike, because some gateways forward the method of the original request.
 */
export function extAuthRoutes(deps: ExtAuthDeps): Route[] {
  return METHODS.flatMap((method) =>
    ["/v1/service/ext-auth", "/v1/service/ext-auth/{target*}"].map((path) => hookRoute(deps, method, path)),
  );
}

function hookRoute(deps: ExtAuthDeps, method: (typeof METHODS)[number], path: string): Route {
  const withTarget = path.includes("{");
  return route({
    id: `ext_auth_${method.toLowerCase()}${withTarget ? "_scope" : ""}`,
    method,
    path,
    summary: "Tell a gateway whether a request may pass; any method",
    access: "public",
    idempotent: "foreign",
    ...(withTarget ? { params: z.object({ target: z.string() }) } : {}),
    demands: ["api_key"],
    keyRoles: KEY_ROLES,
    headers: {
      "X-Service-Proof": "The proof: a reference, or a bundle in base64url",
      ...(withTarget
        ? {}
        : { "X-Service-Required-Scope": "The scope that the request needs; or add `/{scope}` to the path" }),
    },
    answer: { status: 200, schema: answer, description: "Allowed: let the request pass", ...HEADERS },
    otherAnswers: {
      403: { schema: answer, description: "Denied, or no authority was demonstrated", ...HEADERS },
      503: {
        schema: answer,
        description: "No decision exists: the request must not pass",
        ...HEADERS,
        headers: { ...NOTES, "Retry-After": "Whole seconds after which the call may be repeated" },
      },
    },
    errors: [],
    async handle(call) {
      const { decision, reason, receipt, again } = await decide(deps, call as HookCall);
      const status = statusOf[decision];
      const headers = {
        ...headersOf(deps.word, { decision, decision_reason: reason, ...authorityOf(receipt) }),
        ...(status === 503 ? { "retry-after": again ?? RETRY_SECONDS } : {}),
      };
      return { status, body: { decision, decision_reason: reason }, headers };
    },
  });
}

/** `again`: the seconds to wait before a retry, from the refusal's `Retry-After`. */
type Outcome = {
  decision: keyof typeof statusOf;
  reason: string;
  receipt?: Receipt;
  again?: string | undefined;
};

const RETRY_SECONDS = "1";

/** The format of an id that may become a header. Untrusted issuers choose the ids of their certificates. */
const HEADER_TEXT = /^[\x21-\x7e]{1,128}$/;

/** Returns the authority's ids. Omits a certificate's id that is unsafe in a header and so not from here. */
function authorityOf(receipt: Receipt | undefined): Record<string, string> {
  if (receipt === undefined) return {};
  const { human_id, agent_id, cert_id, receipt_id } = receipt;
  const ids = { human_id, agent_id, receipt_id };
  return HEADER_TEXT.test(cert_id) ? { ...ids, cert_id } : ids;
}

function headersOf(word: string, values: Record<string, string>): Record<string, string> {
  const named = Object.entries(values).map(([name, value]) => [
    `x-${word}-${name.replaceAll("_", "-")}`,
    value,
  ]);
  return Object.fromEntries(named);
}

/** `refuse`: there is no valid proof. `none`: no decision could be made. */
const statusOf = { allow: 200, deny: 403, refuse: 403, indeterminate: 503, none: 503 } as const;

/** Error codes of calls that show no authority. Every other error means that there is no decision. */
const REFUSED: readonly string[] = ["invalid_proof", "invalid_challenge", "session_context_mismatch"];

async function decide(deps: ExtAuthDeps, { params, header }: HookCall): Promise<Outcome> {
  const { verify, queue, findApiKey } = deps;
  try {
    const caller = await findApiKey(header("x-service-api-key") ?? "");
    if (caller === undefined) return { decision: "none", reason: "invalid_api_key" };
    if (!allowsKey(KEY_ROLES, caller)) return { decision: "none", reason: "key_not_allowed" };
    const proof = header(PROOF_HEADER);
    if (proof === undefined) return { decision: "refuse", reason: "proof_missing" };
    const scope = params?.target?.split("/")[0] ?? header(SCOPE_HEADER);
    const options = verifyOptions.safeParse({ required_scope: scope });
    if (!options.success) return { decision: "none", reason: "invalid_scope" };
    const call = {
      caller,
      readProof: () => readProof({ header: proof }, proof.length, verify.memory.recent),
      options: options.data,
    };
    return await queue.run(caller.accountId, (stepAside) => verifyProof(verify, { ...call, stepAside }));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return {
      decision: REFUSED.includes(error.code) ? "refuse" : "none",
      reason: error.code,
      again: error.headers["retry-after"],
    };
  }
}
