import { Agent } from "undici";
import { openDatabase } from "../../../src/db/database.ts";
import { insist, newTally, type Tally } from "../load/attempts.ts";
import { openWorlds, type Target } from "../load/load.ts";
import { callVerify, isAllow, type Proof, prove } from "../load/verifies.ts";
import { NAMESPACE, RELEASE, untilReady } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";

/** Callers for each pod. Each has a connection of its own, which the Service leads to any pod. */
const CALLERS = 64;
/** New pods are slow at first. The first proofs warm them up. */
const PROOFS = { warm: 3_000, measured: 6_000 };

/** Decisions a second of this number of API pods, and what their callers met. */
export type Rate = { pods: number; perSecond: number; tally: Tally };

/** Measures the decisions of each number of API pods in turn. Afterwards, the API has `after` pods. */
export async function measureReplicas(
  tools: Tools,
  target: Target,
  { counts, after }: { counts: readonly number[]; after: number },
): Promise<Rate[]> {
  const url = target.databaseUrl;
  const database = openDatabase({ url, name: "cluster-replicas", max: 4, onError: () => undefined });
  const rates: Rate[] = [];
  try {
    const worlds = await openWorlds(database, target.sealingKey);
    for (const pods of counts) {
      await scaleApi(tools, pods);
      await decideAll(target, await prove(worlds, PROOFS.warm), CALLERS * pods);
      const proofs = await prove(worlds, PROOFS.measured);
      const since = performance.now();
      const tally = await decideAll(target, proofs, CALLERS * pods);
      const seconds = (performance.now() - since) / 1000;
      rates.push({ pods, perSecond: Math.round(PROOFS.measured / seconds), tally });
    }
    return rates;
  } finally {
    await database.destroy();
    await scaleApi(tools, after);
  }
}

async function scaleApi(tools: Tools, pods: number): Promise<void> {
  await tools.kubectl("-n", NAMESPACE, "scale", `deployment/${RELEASE}-api`, `--replicas=${pods}`);
  await untilReady(tools, "api", pods);
}

/** Sends each proof once, `callers` at a time. Lists answers other than `allow` as wrong. */
async function decideAll({ apiUrl }: Target, proofs: Proof[], callers: number): Promise<Tally> {
  const dispatcher = new Agent({ connections: callers, pipelining: 1 });
  const tally = newTally();
  const caller = async () => {
    for (let proof = proofs.pop(); proof !== undefined; proof = proofs.pop()) {
      const sent = proof;
      const answer = await insist("verify", tally, () => callVerify({ apiUrl, dispatcher }, sent));
      if (!isAllow(answer)) {
        tally.wrong.push(`verify answered ${answer.status}: ${answer.text.slice(0, 200)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  await dispatcher.close();
  return tally;
}
