import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { addSeconds, systemClock } from "../../src/clock.ts";
import { openDatabase, openPool } from "../../src/db/database.ts";
import { appendEvent, type LifecycleEvent } from "../../src/events/outbox.ts";
import { newIdAt } from "../../src/ids.ts";
import { decideBatch } from "../../src/proofs/decide/decision.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { secretBox, type TestConnection } from "../events/support/connection.ts";
import { createdEvent, deniedEvent } from "../events/support/events.ts";
import { chances } from "../events/support/load.ts";
import { itemFor, type Records } from "../proofs/records.ts";
import { openLines } from "./lines.ts";

/** Input of the generator. `perSecond` is the approximate number of events and decisions. */
export type GeneratorInput = {
  url: string;
  folder: string;
  seed: number;
  perSecond: number;
  connections: TestConnection[];
  accounts: Records[];
};

const ROLLED_BACK = 0.1;
const POISON = 0.005;
const DECISION = 0.2;
const CHALLENGE_SECONDS = 300;
/** Encrypts poison events with a key that the worker does not have. */
const strangeBox = createSecretBox(Buffer.alloc(32, 9));

/**
 * Writes decisions and events. Some events cannot be handled, and some transactions are rolled back. Records
 * whether each was committed, rolled back, or has an unknown outcome. Stops when standard input closes.
 */
async function generate({ url, folder, seed, perSecond, connections, accounts }: GeneratorInput) {
  const onError = () => undefined;
  const database = openDatabase({ url, name: "soak-generator", max: 8, onError });
  const pool = openPool({ url, name: "soak-decisions", max: 2, onError });
  const lines = openLines(folder, "appended");
  const chance = chances(seed);
  const pick = <T>(all: readonly T[]): T => all[Math.floor(chance() * all.length)] as T;
  let isOver = false;
  createInterface({ input: process.stdin }).once("close", () => {
    isOver = true;
  });

  async function appendOne(id: string, event: LifecycleEvent, kind: "event" | "poison"): Promise<void> {
    const box = kind === "poison" ? strangeBox : secretBox;
    const undone = chance() < ROLLED_BACK;
    const outcome = await database
      .transaction(async (tx) => {
        await appendEvent(tx, box, event, systemClock.now());
        if (undone) throw new Undone();
      })
      .then(
        () => "committed" as const,
        (error: unknown) => (error instanceof Undone ? ("rolled_back" as const) : ("unknown" as const)),
      );
    lines.write({ id, kind, of: event.connectionId, outcome });
    if (outcome === "unknown") await sleep(50);
  }

  async function decideOne(): Promise<void> {
    const account = pick(accounts);
    const decidedAt = systemClock.now();
    const id = newIdAt(decidedAt);
    const item = itemFor(account, {
      eventId: id,
      decidedAt,
      challengeExpiresAt: addSeconds(decidedAt, CHALLENGE_SECONDS),
    });
    const outcome = await decideBatch(pool, [item]).then(
      ([decided]) => (decided?.kind === "decided" ? ("committed" as const) : ("rolled_back" as const)),
      () => "unknown" as const,
    );
    lines.write({ id, kind: "decision", of: account.accountId, outcome });
    if (outcome === "unknown") await sleep(50);
  }

  function writeOne(): Promise<void> {
    if (chance() < DECISION) return decideOne();
    const connection = pick(connections);
    const id = randomUUID();
    if (chance() >= POISON) return appendOne(id, deniedEvent(connection, id), "event");
    const created = createdEvent(connection, "dpz_poison");
    return appendOne(
      id,
      { ...created, fields: { ...created.fields, org_name: id } } as LifecycleEvent,
      "poison",
    );
  }

  process.stdout.write("started\n");
  while (!isOver) {
    const count = 1 + Math.floor(chance() * 4);
    await Promise.all(Array.from({ length: count }, writeOne));
    await sleep((count / perSecond) * 2_000 * chance());
  }
  await lines.close();
  await Promise.all([database.destroy(), pool.end()]);
}

class Undone extends Error {}

await generate(JSON.parse(process.env.SOAK_INPUT ?? "{}"));
