import type { Agent } from "node:https";
import type { Socket } from "node:net";
import { afterEach, beforeEach, expect, vi } from "vitest";
import { createGuard } from "../../src/sdk/guard.ts";
import { answering, type StubBehaviour, type StubService, startStub } from "./stub_service.ts";

export const ALLOW = { decision: "allow", decision_reason: "authorized" };
export const allowText = JSON.stringify(ALLOW);
const proof = '{"agent_id":"aa","opaque":[1,2]}';

export type Enforced = { outcome: "executed" } | { status: number; code: string; cause: string };
export type EnforcedSettings = { baseUrl?: string; timeoutMs?: number; agent?: Agent };

/** A service stub that is new for each test. `act` runs an action behind a guard that calls the stub. */
export type EnforcementWorld = { stub: StubService; act(settings?: EnforcedSettings): Promise<Enforced> };

export function enforcementWorld(): EnforcementWorld {
  const world = {
    async act(settings = {}) {
      const guard = createGuard({ baseUrl: world.stub.url, apiKey: "dpz_key", ...settings });
      const action = vi.fn(() => "done");
      const run = await guard.run({ requiredScope: "data:read", proof }, action);
      expect(action).toHaveBeenCalledTimes(run.executed ? 1 : 0);
      return run.executed
        ? { outcome: "executed" as const }
        : { status: run.refusal.status, code: run.refusal.code, cause: run.record.cause };
    },
  } as EnforcementWorld;
  beforeEach(async () => {
    world.stub = await startStub(answering(200, ALLOW));
  });
  afterEach(() => world.stub.stop());
  return world;
}

/** Returns a stub behavior that handles only the socket and ignores the request. */
export function behaving(behaviour: (socket: Socket) => void): StubBehaviour {
  return (socket) => behaviour(socket);
}

export function refusal(status: 403 | 503, code: string, cause: string) {
  return { status, code, cause };
}
export const noAuthority = refusal(403, "no_authority_demonstrated", "bad_proof");
export const noDecision = (cause: string) => refusal(503, "verification_unavailable", cause);
export const executed = { outcome: "executed" };
