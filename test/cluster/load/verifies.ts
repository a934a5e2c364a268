import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "undici";
import { bundleHash, type ProofBundle } from "../../../src/protocol/documents/proof_bundle.ts";
import type { openLines } from "../../soak/lines.ts";
import type { ProofWorld } from "../../support/proof_world.ts";
import { type Answer, insist, newTally, type Tally } from "./attempts.ts";

/** Times are in milliseconds from when a call was due. */
export type Verified = { allowed: number; p50: number; p99: number; slowest: number; perSecond: number };

export type Proof = { world: ProofWorld; id: string; body: string };
type Appended = Pick<ReturnType<typeof openLines<"appended">>, "write">;

const CONNECTIONS = 32;
const CALL_MS = 15_000;
/** If more calls than this are open, further calls start late. */
const MOST_OPEN = 512;
const TICK_MS = 10;
/** Proofs to create at a time, while the available proofs last for less than one second. */
const BATCH = 20;

/** Creates proofs for the test accounts in turn, a few at a time. */
export async function prove(worlds: readonly ProofWorld[], count: number): Promise<Proof[]> {
  const proofs: Proof[] = [];
  while (proofs.length < count) {
    const batch = worlds.slice(0, count - proofs.length);
    proofs.push(...(await Promise.all(batch.map(async (world) => proofOf(world, await world.prove())))));
  }
  return proofs;
}

function proofOf(world: ProofWorld, bundle: ProofBundle): Proof {
  const body = JSON.stringify({ proof_bundle: bundle, required_scope: "data:read" });
  return { world, id: Buffer.from(bundleHash(bundle)).toString("hex"), body };
}

/** Requests a decision once. Rejects if there is no answer within 15 seconds. */
export async function callVerify(
  { apiUrl, dispatcher }: { apiUrl: string; dispatcher: Agent },
  { world, body }: Proof,
): Promise<Answer> {
  const answer = await request(`${apiUrl}/v1/service/verify`, {
    method: "POST",
    dispatcher,
    headers: { "content-type": "application/json", "x-service-api-key": world.apiKey },
    body,
    signal: AbortSignal.timeout(CALL_MS),
  });
  const headers = Object.entries(answer.headers).map(([name, value]): [string, string] => [
    name,
    String(value),
  ]);
  return { status: answer.statusCode, headers: new Headers(headers), text: await answer.body.text() };
}

/** Returns whether an answer to a verify call allows the action. */
export function isAllow({ status, text }: Answer): boolean {
  return status === 200 && text.includes('"decision":"allow"');
}

/**
 * Requests decisions at a steady rate, regardless of earlier answers, until it is stopped. Repeats a call
 * without an answer with the same proof. If the proof is spent by then, the first call was decided. Uses the
 * given proofs first, and then creates new ones.
 */
export function startVerifies(
  {
    apiUrl,
    worlds,
    lines,
    perSecond,
  }: { apiUrl: string; worlds: ProofWorld[]; lines: Appended; perSecond: number },
  given: Proof[] = [],
) {
  const dispatcher = new Agent({ connections: CONNECTIONS, pipelining: 1, keepAliveTimeout: 4_000 });
  const tally: Tally = newTally();
  const took: number[] = [];
  const open = new Set<Promise<void>>();
  const proofs = given;
  const started = performance.now();
  let [isOver, place, sent, allowed] = [false, 0, 0, 0];

  async function verifyOne({ world, id, body }: Proof, dueAt: number): Promise<void> {
    let tries = 0;
    const answer = await insist("verify", tally, () => {
      tries += 1;
      return callVerify({ apiUrl, dispatcher }, { world, id, body });
    });
    const { status, text } = answer;
    const isAllowed = isAllow(answer);
    const wasDecided = tries > 1 && status === 400 && text.includes("invalid_challenge");
    if (!isAllowed && !wasDecided) tally.wrong.push(`verify answered ${status}: ${text.slice(0, 200)}`);
    else lines.write({ id, kind: "decision", of: world.accountId, outcome: "committed" });
    if (isAllowed) allowed += 1;
    took.push(performance.now() - dueAt);
  }

  async function keepProving(): Promise<void> {
    while (!isOver) {
      // Creating proofs may fail: the keys of challenges are in the database, which may be unavailable.
      if (proofs.length < perSecond) proofs.push(...(await prove(worlds, BATCH).catch(() => [])));
      await sleep(TICK_MS);
    }
  }

  async function keepSending(): Promise<void> {
    while (!isOver) {
      const due = Math.floor(((performance.now() - started) / 1000) * perSecond);
      for (; place < due && open.size < MOST_OPEN; place += 1) {
        const proof = proofs.shift();
        // Skips the calls that are due: a missing proof means that this machine was too slow to create one,
        // so they would not measure the service.
        if (proof === undefined) {
          place = due;
          break;
        }
        const one = verifyOne(proof, started + (place / perSecond) * 1000);
        sent += 1;
        open.add(one);
        void one.catch((error: Error) => tally.wrong.push(error.message)).finally(() => open.delete(one));
      }
      await sleep(TICK_MS);
    }
  }

  const running = Promise.all([keepSending(), keepProving()]);
  return {
    tally,
    async stop(): Promise<Verified> {
      isOver = true;
      await running;
      const seconds = (performance.now() - started) / 1000;
      await Promise.allSettled(open);
      await dispatcher.close();
      took.sort((one, other) => one - other);
      const at = (share: number) => Math.round(took[Math.floor(took.length * share)] ?? 0);
      return {
        allowed,
        p50: at(0.5),
        p99: at(0.99),
        slowest: at(0.9999),
        perSecond: Math.round(sent / seconds),
      };
    },
  };
}
