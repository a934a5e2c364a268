import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/dev/process/ports.ts";
import { challengeDay, createChallengeKeys, issueChallenge } from "../../src/proofs/present/challenge.ts";
import { encodeBase64 } from "../../src/protocol/encoding/base64.ts";
import { runningApi } from "../support/api.ts";
import { createClient } from "../support/http.ts";
import { copyCustomers } from "../support/many_customers.ts";
import { killRoles, type RoleProcess, startRole } from "../support/role_process.ts";
import { connect, type Lent, lend, proofOver, publisher } from "../support/two_companies.ts";
import { vaultFiles } from "../support/vault_files.ts";

/** Two API processes: the test's own, and a second one on the same database. */
const api = runningApi();
const second: RoleProcess[] = [];
let bases: string[];

const VERIFIES = 1_000;
/** Proofs that are made at a time. */
const AT_ONCE = 20;
/** Calls at a time. */
const CALLERS = 40;
/** How many calls have answers when the connection ends. */
const BEFORE_END = 100;
/** The last calls before the end come slowly, so that some are under way at the end, and these follow it. */
const SLOW = 400;
const SLOW_MS = 500;
const AFTER_END = 100;
/** More customers than end in the transaction of a removal. */
const MANY = 25;

beforeAll(async () => {
  const port = await freePort();
  const started = startRole("api", {
    PATH: process.env.PATH ?? "",
    DATABASE_URL: api.databaseUrl,
    SEALING_KEY: api.sealingKey.toString("base64"),
    DEVELOPMENT: "true",
    PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    VAULT_URL: "https://127.0.0.1:1",
    ...(await vaultFiles()),
  });
  second.push(started);
  await started.ready();
  bases = [api.url, `http://127.0.0.1:${port}`];
});
afterAll(() => killRoles(second));

type Scene = { at: { connectionId: string; apiKey: string }; lent: Lent; end(): Promise<{ status: number }> };

async function customerScene(by: "publisher" | "customer" | "removal"): Promise<Scene> {
  const shop = await publisher(api);
  const customer = await connect(api, shop);
  const lent = await lend(api, customer);
  const { connectionId, person } = customer;
  if (by === "removal") await copyCustomers(api.db, connectionId, MANY);
  const { platformId, connectionId: own } = shop.platform;
  const calls = {
    publisher: [shop.person, `/v1/service/platforms/${platformId}/customers/${connectionId}`],
    customer: [person, `/v1/service/connected-products/${connectionId}`],
    removal: [shop.person, `/v1/service/connections/${own}`],
  } as const;
  const [{ client }, path] = calls[by];
  return { at: customer, lent, end: () => client.call("DELETE", path) };
}

test.each([
  ["a customer connection that the publisher ends", () => customerScene("publisher")],
  ["a customer connection that the customer ends", () => customerScene("customer")],
  ["a customer connection whose platform is removed", () => customerScene("removal")],
])(
  `two API processes allow none of ${VERIFIES} verifications after the end of %s`,
  { timeout: 300_000 },
  async (_, prepare) => {
    api.clock.set(new Date());
    const { at, lent, end } = await prepare();
    const now = api.clock.now();
    const keys = await createChallengeKeys(api).forIssuing(challengeDay(now), now);
    const proofs: unknown[] = [];
    while (proofs.length < VERIFIES) {
      const challenges = Array.from({ length: AT_ONCE }, () => issueChallenge(keys, at.connectionId, now));
      const made = challenges.map((challenge) => proofOver(api, encodeBase64(challenge), lent));
      proofs.push(...(await Promise.all(made)));
    }
    const allows = () =>
      api
        .db("audit_events")
        .where({ connection_id: at.connectionId, decision: "allow", verifier_account_id: null });
    const clients = bases.map((base) => createClient(base, "service"));
    const seen = new Map<string, number>();
    const endGate = Promise.withResolvers<void>();
    let answered = 0;
    let allowedAtEnd: number | undefined;
    const ending = endGate.promise.then(async () => {
      expect((await end()).status).toBe(200);
      allowedAtEnd = (await allows()).length;
    });
    const next = async () => {
      if (proofs.length < SLOW) await Promise.race([ending, sleep(SLOW_MS)]);
      if (proofs.length < AFTER_END) await ending;
      return proofs.pop();
    };
    const caller = async (n: number) => {
      for (let proof = await next(); proof !== undefined; proof = await next()) {
        const isLate = allowedAtEnd !== undefined;
        const body = { proof_bundle: proof, required_scope: "data:read" };
        const options = { headers: { "x-service-api-key": at.apiKey }, csrf: false };
        const answer = await clients[n % clients.length]!.post("/v1/service/verify", body, options);
        const outcome = `${isLate ? "late " : ""}${answer.status} ${String(answer.body.decision ?? "")}`;
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
        answered += 1;
        if (answered === BEFORE_END) endGate.resolve();
      }
    };
    await Promise.all([ending, ...Array.from({ length: CALLERS }, (_, n) => caller(n))]);
    console.log(Object.fromEntries(seen));
    expect(seen.has("late 200 allow")).toBe(false);
    expect(seen.get("late 401 ")).toBeGreaterThan(0);
    expect(allowedAtEnd).toBeGreaterThanOrEqual(BEFORE_END);
    // Calls under way at the end may still get an answer of an allow that was stored before.
    expect(await allows()).toHaveLength(allowedAtEnd ?? 0);
  },
);
