import { randomUUID } from "node:crypto";
import { requestHash } from "../../src/protocol/documents/context_binding.ts";
import type { HttpAnswer } from "../support/http.ts";
import type { Application } from "./application.ts";

export const BOUND_SCOPE = "payments:send";

export type Wish = Record<string, string>;

type Parties = {
  platform: { connectionId: string };
  person: { accountId: string };
  agentId: string;
};

/** Creates an operation that names the application as verifier and the application's agent. */
export function operationOf(app: Parties, changes: Wish = {}): Wish {
  const named = { action: "refund", resource_id: "order-7", requested_path: "/orders/7/refund", ...changes };
  const hash = requestHash({ required_scope: BOUND_SCOPE, operation: named.action, ...named });
  return {
    verifier_id: app.platform.connectionId,
    workspace_id: app.person.accountId,
    agent_id: app.agentId,
    session_id: "s-1",
    invocation_id: randomUUID(),
    request_hash: `sha256:${Buffer.from(hash).toString("hex")}`,
    ...named,
  };
}

export async function prove(app: Application, operation: Wish): Promise<unknown> {
  const { status, body, text } = await app.present({ operation, required_scope: BOUND_SCOPE });
  if (status !== 200) throw new Error(text);
  return body.proof_bundle;
}

export function decide(app: Application, proof: unknown, operation: Wish, fields = {}): Promise<HttpAnswer> {
  return app.verify(proof, { operation, required_scope: BOUND_SCOPE, ...fields });
}
