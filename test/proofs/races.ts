import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "../../src/accounts/ledger/amounts.ts";
import { reconcileLedger } from "../../src/accounts/ledger/reconcile.ts";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer, HttpClient } from "../support/http.ts";
import {
  approve,
  createAgent,
  registerPlatform,
  selfRequest,
  type TestPlatform,
} from "../support/platform_world.ts";

/** Two APIs on one database. An index selects the API to call. */
export type Replicas = readonly [TestApi, TestApi];

/** A person's application, with one client for each of the two APIs. */
export type Application = { person: Person; platform: TestPlatform; agentId: string; clients: HttpClient[] };

export async function startApplication(apis: Replicas): Promise<Application> {
  const person = await apis[0].person();
  const platform = await registerPlatform(person);
  const agentId = await createAgent(apis[0].client(), platform);
  return { person, platform, agentId, clients: apis.map((api) => api.client()) };
}

const keyed = ({ clients, platform }: Application, n: number, path: string, body?: unknown) =>
  (clients[n % 2] as HttpClient).post(path, body, {
    headers: { "x-service-api-key": platform.apiKey },
    csrf: false,
  });

export async function prove(application: Application, certId?: string): Promise<unknown> {
  const { platform, agentId } = application;
  const issued = await keyed(application, 0, "/v1/service/challenge");
  expect(issued.status).toBe(200);
  const path = `/v1/service/connections/${platform.connectionId}/agents/${agentId}/present`;
  const presented = await keyed(application, 0, path, {
    challenge: issued.body.challenge,
    ...(certId === undefined ? {} : { cert_id: certId }),
  });
  expect(presented.status).toBe(200);
  return presented.body.proof_ref;
}

export function verify(application: Application, n: number, proof: unknown): Promise<HttpAnswer> {
  return keyed(application, n, "/v1/service/verify", { proof_ref: proof, required_scope: "data:read" });
}

export async function lend({ person, platform }: Application): Promise<string> {
  const answer = await approve(person, await selfRequest(person, platform.connectionId), ["data:read"]);
  expect(answer.status).toBe(200);
  return String(answer.body.cert_id);
}

const wordOf = ({ status, body }: HttpAnswer) => `${status} ${body.decision} ${body.decision_reason}`;
const ALLOWED = "200 allow authorized";
const REVOKED = "200 deny delegation_revoked";

/**
 * Revokes a certificate while each of two APIs decides on a proof with this certificate. Checks that each
 * later decision is a denial. Returns the results of the concurrent decisions.
 *
 * In this race, a revocation hardly ever completes between a decision's read and its commit.
 * `locked_rows.test.ts` tests that case.
 */
export async function raceRevocations(apis: Replicas, rounds: number): Promise<Map<string, number>> {
  const application = await startApplication(apis);
  const raced = new Map<string, number>();
  for (let round = 0; round < rounds; round += 1) {
    const certId = await lend(application);
    const proofs = await Promise.all(Array.from({ length: 4 }, () => prove(application, certId)));
    const underWay = [0, 1].map(async (n) => {
      if (round % 4 === n) await sleep(Math.random() * 12);
      return wordOf(await verify(application, n, proofs[n]));
    });
    if (round % 3 === 0) await sleep(Math.random() * 12);
    const path = `/v1/service/delegations/${certId}/revoke`;
    const revoked = await application.person.client.post(path, {});
    expect(revoked.status).toBe(200);
    const after = await Promise.all([2, 3].map((n) => verify(application, n, proofs[n])));
    expect(after.map(wordOf)).toEqual([REVOKED, REVOKED]);
    for (const word of await Promise.all(underWay)) {
      expect([ALLOWED, REVOKED]).toContain(word);
      raced.set(word, (raced.get(word) ?? 0) + 1);
    }
  }
  return raced;
}

/**
 * Verifies `tries` proofs concurrently with credit for `affordable`. Checks that exactly `affordable` proofs
 * are decided, charged and recorded, and that the other proofs get 402 and leave no rows.
 */
export async function raceForCredit(
  apis: Replicas,
  { tries, affordable }: { tries: number; affordable: number },
): Promise<void> {
  const application = await startApplication(apis);
  await lend(application);
  const proofs: unknown[] = [];
  while (proofs.length < tries) {
    const count = Math.min(64, tries - proofs.length);
    proofs.push(...(await Promise.all(Array.from({ length: count }, () => prove(application)))));
  }
  const counts = new Map<string, number>();
  await Promise.all(
    Array.from({ length: 64 }, async (_, client) => {
      for (let n = client; n < tries; n += 64) {
        const answer = await verify(application, n >> 6, proofs[n]);
        const word = answer.status === 200 ? wordOf(answer) : `${answer.status}`;
        counts.set(word, (counts.get(word) ?? 0) + 1);
      }
    }),
  );
  expect(Object.fromEntries(counts)).toEqual({ [ALLOWED]: affordable, "402": tries - affordable });
  const { db } = apis[0];
  const own = { account_id: application.person.accountId };
  expect(await db("balances").where(own).pluck("balance_micro_usd")).toEqual([0]);
  const charges = await db("ledger_postings").where({ ...own, kind: "verification" });
  expect(charges.map(({ amount_micro_usd }) => amount_micro_usd)).toEqual(Array(affordable).fill(PRICE));
  expect(await db("audit_events").where({ ...own, decision: "allow" })).toHaveLength(affordable);
  const { differences } = await reconcileLedger(db);
  expect(differences).toEqual([]);
}
