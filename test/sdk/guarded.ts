import { afterEach, beforeEach } from "vitest";
import { createGuard, type Guard, type GuardSettings } from "../../src/sdk/guard.ts";
import { answering, answeringBoth, type StubService, startStub } from "./stub_service.ts";

export const RECEIPT = { receipt_id: "01a1fd7f-0000-7000-8000-000000000001" };
export const ALLOW = {
  decision: "allow",
  decision_reason: "authorized",
  agent_id: "aa",
  human_id: "bb",
  cert_id: "cert-1",
  granted_scope: ["payments:send"],
  receipt: RECEIPT,
  receipt_hash: "sha256:00",
  replayed: false,
};
export const noAuthority = { status: 403, code: "no_authority_demonstrated" };
export const noDecision = { status: 503, code: "verification_unavailable" };
export const proof = { proof_bundle: { agent_id: "aa", challenge: "x" } };
export const requiredScope = "payments:send";
export const verifier = { verifierId: "connection-1", workspaceId: "account-1" };
export const operation = {
  action: "refund",
  invocationId: "inv-1",
  resourceId: "order-7",
  requestedPath: "/orders/7/refund?fast=1",
  sessionId: "s-1",
};
export const call = { requiredScope, proof };

/** A service stub that allows everything and is new for each test, and guards that call the stub. */
export type GuardedWorld = {
  stub: StubService;
  guardWith(settings?: Partial<GuardSettings>): Guard;
  sentBodies(): Record<string, unknown>[];
};

export function guardedWorld(): GuardedWorld {
  const world = {
    guardWith: (settings = {}) =>
      createGuard({ baseUrl: world.stub.url, apiKey: "dpz_key", onFault: () => undefined, ...settings }),
    sentBodies: () => world.stub.requests.map(({ body }) => JSON.parse(body)),
  } as GuardedWorld;
  beforeEach(async () => {
    world.stub = await startStub(answeringBoth(answering(200, ALLOW), answering(200, {})));
  });
  afterEach(() => world.stub.stop());
  return world;
}
