import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { bindOperation, type Operation } from "../../sdk/operation.ts";
import type { Inbox } from "./receiver.ts";

/** An unexpected result of a tour step. */
export class Surprise extends Error {}

/** A response of the API with any status. */
export type HttpAnswer = { status: number; body: Record<string, unknown> & { error?: { code?: string } } };

/** A connection, whose API key verifies proofs, and the connection's agent, which presents proofs. */
export type Application = {
  baseUrl: string;
  apiKey: string;
  connectionId: string;
  agentId: string;
  /** The ids that name the connection in an operation. */
  verifier?: { workspace_id?: string | undefined; verifier_id?: string | undefined };
};

/** Timeouts in milliseconds for a status from the operator and for an event. */
export type Patience = { statusMs: number; eventMs: number };

const CALL_TIMEOUT_MS = 10_000;
const POLL_MS = 50;

/** Makes a call with the API key of a connection. Returns any response. */
export async function call(
  { baseUrl, apiKey }: Pick<Application, "baseUrl" | "apiKey">,
  path: string,
  body?: unknown,
): Promise<HttpAnswer> {
  const response = await fetch(new URL(path, baseUrl), {
    method: body === undefined ? "GET" : "POST",
    headers: {
      "x-service-api-key": apiKey,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  return { status: response.status, body: (await response.json()) as HttpAnswer["body"] };
}

/** A proof bundle, and the one action for which it was made. */
export type Proof = { bundle: unknown; operation: Operation; scope: string };

/** Describes the agent's next order at the application. Each order is another action. */
export async function nextOrder(application: Application, scope: string): Promise<Operation> {
  const { body } = await call(application, "/v1/service/connection");
  const verifier = { verifierId: String(body.verifier_id), workspaceId: String(body.workspace_id) };
  const order = { action: "POST", requestedPath: "/orders", invocationId: randomUUID() };
  return bindOperation(
    { ...order, agentId: application.agentId },
    { requiredScope: scope, verifier, payloadDigest: undefined },
  );
}

/** Presents a certificate for an operation. Returns the response, whatever its status. */
export function present(application: Application, certId: string, operation: Operation): Promise<HttpAnswer> {
  const { connectionId, agentId } = application;
  const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
  return call(application, path, { operation, cert_id: certId });
}

/** Returns a proof of the next order. Throws `Surprise` if `present` is refused. */
export async function proofOf(application: Application, certId: string, scope: string): Promise<Proof> {
  const operation = await nextOrder(application, scope);
  const answer = await present(application, certId, operation);
  if (answer.status !== 200) {
    throw new Surprise(`present answered ${answer.status} ${answer.body.error?.code ?? ""}`);
  }
  return { bundle: answer.body.proof_bundle, operation, scope };
}

/** Requests a decision on a proof, for its own operation by default. Returns any response. */
export function verify(
  application: Application,
  { bundle, operation, scope }: Proof,
  asked: Operation = operation,
): Promise<HttpAnswer> {
  const body = { proof_bundle: bundle, required_scope: scope, operation: asked };
  return call(application, "/v1/service/verify", body);
}

/** Returns a decision's description. Throws `Surprise` if this is not the expected decision. */
export function expectDecision({ status, body }: HttpAnswer, decision: string, reason: string): string {
  const got = `${status} ${body.decision} ${body.decision_reason}`;
  expectEqual("the answer", body.error ? `${status} ${body.error.code}` : got, `200 ${decision} ${reason}`);
  return `${decision} ${reason}`;
}

/** Returns an error's description. Throws `Surprise` if this is not the expected error. */
export function expectError({ status, body }: HttpAnswer, wanted: number, code: string): string {
  expectEqual("the answer", `${status} ${body.error?.code}`, `${wanted} ${code}`);
  return `${status} ${code}`;
}

/** Throws `Surprise` if the two values differ. */
export function expectEqual(what: string, got: unknown, wanted: unknown): void {
  if (got !== wanted) throw new Surprise(`${what} is ${String(got)}, not ${String(wanted)}`);
}

/**
 * Waits until an event about a certificate or a connection is delivered. Returns a description with the
 * delivery ID, or a note that the event goes to the URL that the manifest declares, or that nothing receives
 * webhooks.
 */
export async function delivered(
  { receiver, patience }: { receiver?: Pick<Inbox, "waitFor">; patience: Patience },
  { id, declaredCallback }: { id: string; declaredCallback?: string | undefined },
  event: string,
): Promise<string> {
  if (declaredCallback !== undefined) {
    return `${event} goes to the callbackUrl in the manifest, ${declaredCallback}`;
  }
  if (receiver === undefined) return `${event}, without a receiver`;
  const { delivery_id } = await receiver.waitFor(
    (received) => received.event === event && JSON.stringify(received.body).includes(id),
    patience.eventMs,
  );
  return `${event}, delivery ${delivery_id}, signature checked`;
}

/** Polls `ask` until it returns a value. Throws `Surprise` with the result of `explain` after `timeoutMs`. */
export async function within<T>(
  what: string,
  timeoutMs: number,
  ask: () => Promise<T | undefined>,
  explain: () => Promise<string>,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > end) {
      throw new Surprise(`${what} did not appear within ${timeoutMs / 1000} s: ${await explain()}`);
    }
    await sleep(POLL_MS);
  }
}
