import { createHash } from "node:crypto";

const AUTHORITY = "io.deputize/authority";
const SCOPES = new Map([["send_payment", "payments:send"]]);
const REFUSED = "The call is not permitted. Nothing was done. Ask the person for whom you act.";

/** Returns a function that decides a `tools/call`: `params` to forward, or a `result` or `error` to return. */
export async function createDecider({ baseUrl, apiKey, server }) {
  const headers = { "content-type": "application/json", "x-service-api-key": apiKey };
  const response = await fetch(`${baseUrl}/v1/service/keys/self`, { headers });
  if (!response.ok) throw new Error(`keys/self returned ${response.status}`);
  const own = await response.json();

  return async ({ name, arguments: given, inputResponses, requestState, _meta }) => {
    const { [AUTHORITY]: proof, ...meta } = _meta ?? {};
    const scope = SCOPES.get(name);
    if (scope === undefined) return refusal("tool_without_rule");
    if (!proof?.proof_ref && !proof?.proof_bundle) return refusal("proof_required", scope);
    const { to, amount, currency } = given ?? {};
    if (typeof to !== "string" || typeof amount !== "number" || typeof currency !== "string") {
      return { error: { code: -32602, message: "An argument is missing or has the wrong type" } };
    }
    try {
      const operation = operationOf(proof, {
        scope,
        verifier_id: own.verifier_id,
        workspace_id: own.workspace_id,
        action: `${server}/${name}`,
        resource_id: proof.resource_id === undefined ? "" : to,
        payload: { arguments: given, inputResponses },
      });
      const { agent_id, proof_ref, proof_bundle } = proof;
      const question = {
        subject: { type: "agent", id: agent_id },
        action: { name: scope },
        resource: { type: "connection", id: own.connection_id },
        context: { agent: agent_id, proof_ref, proof_bundle, operation, amount, currency },
      };
      const answer = await fetch(`${baseUrl}/access/v1/evaluation`, {
        method: "POST",
        headers,
        body: JSON.stringify(question),
        signal: AbortSignal.timeout(10_000),
      });
      if (!answer.ok) throw new Error(`The service returned ${answer.status}`);
      const { decision, context } = await answer.json();
      if (decision !== true || context.assurance !== "proof") return refusal(context.reason, scope, context);
      return { params: { name, arguments: given, inputResponses, requestState, _meta: meta } };
    } catch {
      return { error: { code: -32603, message: "The authority could not be verified" } };
    }
  };
}

function operationOf({ agent_id, invocation_id }, { scope, payload, ...named }) {
  const digest = sha256(canonical(payload));
  const fields = [scope, named.action, named.resource_id, "", digest];
  const hash = sha256("ratify/operation-context/v1", ...fields.flatMap(withLength));
  return {
    ...named,
    requested_path: "",
    agent_id,
    session_id: "",
    invocation_id,
    request_hash: `sha256:${hash.toString("hex")}`,
    payload_digest: `sha256:${digest.toString("hex")}`,
  };
}

function refusal(code, required_scope, { receipt_id, evaluation_id, access_request } = {}) {
  const entry = { code, required_scope, receipt_id, evaluation_id, access_request };
  const content = [{ type: "text", text: REFUSED }];
  return { result: { resultType: "complete", isError: true, content, _meta: { [AUTHORITY]: entry } } };
}

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
  }
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  keys.sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
  return `{${keys.map((key) => `${canonical(key)}:${canonical(value[key])}`)}}`;
}

function withLength(value) {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes.length));
  return [length, bytes];
}

function sha256(...parts) {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}
