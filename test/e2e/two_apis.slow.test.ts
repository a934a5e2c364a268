import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/dev/process/ports.ts";
import { must, type Visitor } from "../specification/visitor.ts";
import { type DevStack, environmentOf, PROGRAM, startDevStack } from "../support/dev_stack.ts";
import { killHard, until } from "../support/process.ts";
import { nicenessOfThreads } from "../support/threads.ts";
import { openShop } from "./shop.ts";

/**
 * The API of the embedded stack, and a second API with the same settings, share one Postgres and one vault.
 * `RACE_ROUNDS` sets the number of rounds.
 */
const ROUNDS = Number(process.env.RACE_ROUNDS ?? 120);
const ACCOUNTS = 8;
let stack: DevStack;
let second: ChildProcess;
let bases: [string, string];

beforeAll(async () => {
  stack = await startDevStack();
  const port = await freePort();
  second = spawn(process.execPath, [PROGRAM, "api"], {
    env: { ...(await environmentOf(stack, "api")), PORT: String(port), HEALTH_PORT: "0", OPERATOR_PORT: "0" },
    stdio: ["ignore", "ignore", "inherit"],
  });
  bases = [stack.baseUrl, `http://127.0.0.1:${port}`];
  const answers = () =>
    fetch(`${bases[1]}/v1/service/scopes`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until("the second API answers", answers, 60_000);
});

afterAll(async () => {
  if (second) await killHard(second);
  await stack?.stop();
});

async function race(name: string, rounds: number, raced: Map<string, number>): Promise<void> {
  const { person, on, agents, connectionId } = await openShop(bases, name);
  const prove = async () => {
    const { challenge } = must(await (on[0] as Visitor).call("POST", "/v1/service/challenge"));
    return must(await (on[0] as Visitor).call("POST", `${agents}/present`, { challenge })).proof_ref;
  };
  const verify = async (n: number, proof_ref: unknown) => {
    const body = { proof_ref, required_scope: "data:read" };
    const { decision, decision_reason } = must(
      await (on[n] as Visitor).call("POST", "/v1/service/verify", body),
    );
    return `${String(decision)} ${String(decision_reason)}`;
  };
  for (let round = 0; round < rounds; round += 1) {
    if (round % 400 === 399) must(await person.call("POST", "/v1/auth/refresh"));
    const asked = { connection_id: connectionId };
    const { request_id } = must(await person.call("POST", "/v1/service/delegations/self-request", asked));
    const approve = `/v1/service/delegations/requests/${String(request_id)}/approve`;
    const { cert_id } = must(await person.call("POST", approve, { approved_scope: ["data:read"] }));
    const proofs = [await prove(), await prove(), await prove(), await prove()];
    const underWay = [0, 1].map(async (n) => {
      if (round % 4 === n) await sleep(Math.random() * 12);
      return verify(n, proofs[n]);
    });
    if (round % 3 === 0) await sleep(Math.random() * 12);
    must(await person.call("POST", `/v1/service/delegations/${String(cert_id)}/revoke`, {}));
    const after = await Promise.all([verify(0, proofs[2]), verify(1, proofs[3])]);
    expect(after).toEqual(["deny delegation_revoked", "deny delegation_revoked"]);
    for (const word of await Promise.all(underWay)) {
      expect(["allow authorized", "deny delegation_revoked"]).toContain(word);
      raced.set(word, (raced.get(word) ?? 0) + 1);
    }
  }
}

test("an API process gives signature checks a lower priority than answers to calls", () => {
  const pool = nicenessOfThreads(second.pid as number).filter(({ name }) => name === "libuv-worker");
  expect(new Set(pool.map(({ niceness }) => niceness))).toEqual(new Set([10]));
});

test(`two API processes under load deny every proof once the revocation of its certificate is confirmed, in ${ROUNDS} rounds`, {
  timeout: 3_600_000,
}, async () => {
  const raced = new Map<string, number>();
  const rounds = Math.ceil(ROUNDS / ACCOUNTS);
  await Promise.all(Array.from({ length: ACCOUNTS }, (_, n) => race(`racer-${n}`, rounds, raced)));
  console.log(Object.fromEntries(raced));
  expect(raced.size, "decisions under way are allowed in some rounds and denied in others").toBe(2);
});
