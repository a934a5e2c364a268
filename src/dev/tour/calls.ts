import { setTimeout as sleep } from "node:timers/promises";
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

async function post({ baseUrl, apiKey }: Application, path: string, body?: unknown): Promise<HttpAnswer> {
  const response = await fetch(new URL(path, baseUrl), {
    method: "POST",
    headers: {
      "x-service-api-key": apiKey,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  return { status: response.status, body: (await response.json()) as HttpAnswer["body"] };
}

/** Presents a certificate for a fresh challenge. Returns the response, whatever its status. */
export async function present(application: Application, certId: string): Promise<HttpAnswer> {
  const { connectionId, agentId } = application;
  const issued = await post(application, "/v1/service/challenge");
  expectEqual("the challenge's status", issued.status, 200);
  const path = `/v1/service/connections/${connectionId}/agents/${agentId}/present`;
  return post(application, path, { challenge: issued.body.challenge, cert_id: certId });
}

/** Returns a proof bundle over a fresh challenge. Throws `Surprise` if `present` is refused. */
export async function proofOf(application: Application, certId: string): Promise<unknown> {
  const answer = await present(application, certId);
  if (answer.status !== 200) {
    throw new Surprise(`present answered ${answer.status} ${answer.body.error?.code ?? ""}`);
  }
  return answer.body.proof_bundle;
}

/** Requests a decision. Returns the response, whatever its status. */
export function verify(application: Application, proof: unknown, scope: string): Promise<HttpAnswer> {
  return post(application, "/v1/service/verify", { proof_bundle: proof, required_scope: scope });
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
 * Waits until an event about a certificate is delivered. Returns a description with the delivery ID, or a
 * note that nothing receives webhooks.
 */
export async function deliveredEvent(
  { receiver, patience }: { receiver?: Pick<Inbox, "waitFor">; patience: Patience },
  event: string,
  certId: string,
): Promise<string> {
  if (receiver === undefined) return `${event}, without a receiver`;
  const { delivery_id } = await receiver.waitFor(
    (received) => received.event === event && JSON.stringify(received.body).includes(certId),
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
