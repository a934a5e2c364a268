import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { VERIFICATION_PRICE_MICRO_USD as PRICE } from "../../src/accounts/ledger/amounts.ts";
import { startReplicas } from "../support/api.ts";
import { approve, errorCode, selfRequest } from "../support/platform_world.ts";
import {
  lend,
  prove,
  type Replicas,
  raceForCredit,
  raceRevocations,
  startApplication,
  verify,
} from "./races.ts";

/** Each round of racing revocations needs credit for four decisions. */
const AFFORDABLE = 60;
const ROUNDS = AFFORDABLE / 4;
let apis: Replicas;
beforeAll(async () => {
  apis = await startReplicas({ config: { ALPHA_CREDITS_MICRO_USD: AFFORDABLE * PRICE } });
});
afterAll(async () => {
  await apis[1].stop();
  await apis[0].stop();
});

describe("two APIs on one database", () => {
  test("make no allow decision after a revocation was answered, under load", {
    timeout: 120_000,
  }, async () => {
    const raced = await raceRevocations(apis, ROUNDS);
    expect([...raced.values()].reduce((sum, count) => sum + count)).toBe(2 * ROUNDS);
  });

  test("make exactly as many decisions for 64 clients as the credit pays for", {
    timeout: 120_000,
  }, async () => {
    await raceForCredit(apis, { tries: 2 * AFFORDABLE, affordable: AFFORDABLE });
  });

  test("decide and charge one challenge once, however many concurrent calls both APIs get", async () => {
    const application = await startApplication(apis);
    await lend(application);
    for (let round = 1; round <= 3; round += 1) {
      const proof = await prove(application);
      const answers = await Promise.all(Array.from({ length: 16 }, (_, n) => verify(application, n, proof)));
      const refused = answers.filter((answer) => errorCode(answer) === "invalid_challenge");
      expect([answers.filter(({ status }) => status === 200).length, refused.length]).toEqual([1, 15]);
      const [balance] = await apis[0]
        .db("balances")
        .where({ account_id: application.person.accountId })
        .pluck("balance_micro_usd");
      expect(balance).toBe((AFFORDABLE - round) * PRICE);
    }
  });

  test("create one certificate for concurrent approvals of one request", async () => {
    const application = await startApplication(apis);
    const { person, platform } = application;
    const elsewhere = apis[1].client();
    for (const name of ["service_session", "service_csrf"]) {
      elsewhere.setCookie(name, person.client.cookie(name) ?? "");
    }
    for (let round = 0; round < 3; round += 1) {
      const requestId = await selfRequest(person, platform.connectionId);
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          approve(n % 2 === 0 ? person : { ...person, client: elsewhere }, requestId, ["data:read"]),
        ),
      );
      const codes = answers.map((answer) => errorCode(answer) ?? answer.status);
      expect(codes.filter((code) => code === 200)).toHaveLength(1);
      expect(codes.filter((code) => code === "request_not_pending")).toHaveLength(7);
      expect(await apis[0].db("certificates").where({ request_id: requestId })).toHaveLength(1);
    }
  });
});
