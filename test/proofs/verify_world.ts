import { randomBytes } from "node:crypto";
import { beforeAll } from "vitest";
import { ApiError } from "../../src/errors.ts";
import { createMetrics } from "../../src/metrics.ts";
import { createBatcher } from "../../src/proofs/admission/batch.ts";
import {
  createAcceptanceFinder,
  createCertificateLocks,
} from "../../src/proofs/admission/certificate_rate.ts";
import { createRefusals } from "../../src/proofs/admission/refused_proofs.ts";
import { createRecordedFinder, createRepeats } from "../../src/proofs/admission/repeats.ts";
import type { Decided } from "../../src/proofs/decide/decision.ts";
import { createChallengeKeys } from "../../src/proofs/present/challenge.ts";
import { createProofRefResolver } from "../../src/proofs/present/proof_ref.ts";
import { readVerifyCall } from "../../src/proofs/verify/call.ts";
import { createRootFinder } from "../../src/proofs/verify/verdict.ts";
import { type VerifyDeps, verifyProof } from "../../src/proofs/verify/verify_proof.ts";
import { createCertificateMemory } from "../../src/protocol/documents/certificate_memory.ts";
import type { ApiKeyCaller } from "../../src/route.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { type SteeredClock, steeredClock } from "../support/clock.ts";
import { createProofWorld, type ProofWorld, type WorldOptions } from "../support/proof_world.ts";
import { type DecisionWorld, decisionWorld, placeOf } from "./decision_world.ts";

/** The time at which proofs are made and verified, unless a test moves the clock. */
export const now = new Date("2026-05-01T10:00:00.250Z");

/** Options of a verify call, without its bundle, and the account whose API key makes the call. */
export type Changes = { scope?: string; context?: Record<string, unknown>; as: ProofWorld };

/** A database for one test file, with the dependencies of verification. */
export type VerifyWorld = DecisionWorld & {
  deps: VerifyDeps;
  clock: SteeredClock;
  /** Creates an account with an agent and a certificate issued at `now`. */
  account(options?: WorldOptions): Promise<ProofWorld>;
  verify(bundle: unknown, changes: Changes): Promise<Decided>;
  decisionOf(bundle: unknown, changes: Changes): Promise<string>;
};

/** Creates a {@link VerifyWorld} before the first test in a file, and closes it after the last test. */
export function verifyWorld(): VerifyWorld {
  const secretBox = createSecretBox(randomBytes(32));
  const clock = steeredClock(now);
  const world = Object.assign(decisionWorld(), {
    clock,
    account: (options: WorldOptions = {}) => createProofWorld(world.db, secretBox, { now, ...options }),
    async verify(bundle: unknown, { scope = "data:read", context, as }: Changes) {
      const body = { proof_bundle: bundle, required_scope: scope, ...(context ? { context } : {}) };
      const call = readVerifyCall(callerOf(as), Buffer.from(JSON.stringify(body)), undefined);
      return verifyProof(world.deps, call);
    },
    async decisionOf(bundle: unknown, changes: Changes) {
      const { decision, reason } = await world.verify(bundle, changes);
      return `${decision} ${reason}`;
    },
  }) as VerifyWorld;

  beforeAll(() => {
    const findRecorded = createRecordedFinder(world.db);
    world.deps = {
      secretBox,
      keys: createChallengeKeys({ db: world.db, secretBox }),
      findRoot: createRootFinder(world.db),
      resolveProofRef: createProofRefResolver(world.db),
      findRecorded,
      memory: createCertificateMemory(100),
      decide: createBatcher(placeOf(world.pool)),
      lockCertificates: createCertificateLocks(world.openPool("rates", { max: 2 }), placeOf(world.pool)),
      isAccepted: createAcceptanceFinder(world.db),
      refusals: createRefusals({ perMinute: 100_000, clock }),
      repeats: createRepeats({ perMinute: 100_000, clock, findRecorded }),
      metrics: createMetrics(),
      clock,
      askEndpoint: "https://authority.example.com/v1/service/access-requests",
    };
  });

  return world;
}

export function callerOf({ accountId, connectionId }: ProofWorld): ApiKeyCaller {
  return {
    accountId,
    principalAccountId: accountId,
    isCustomer: false,
    connectionId,
    keyPrefix: "dpz_test",
    verifierId: connectionId,
    registryAnswers: false,
    role: "full",
    agentId: null,
    explanationValues: "full" as const,
  };
}

/** Returns the code of the `ApiError` with which an attempt fails, or `no error`. */
export async function codeOf(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
  return "no error";
}
