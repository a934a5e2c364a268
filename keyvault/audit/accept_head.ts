import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { UserError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Token } from "../token/client.ts";
import { openJournal } from "./journal.ts";
import { closeLedger, type Head, openLedger } from "./ledger.ts";
import type { Caller } from "./record.ts";
import { createRegister } from "./register/register.ts";
import { verifyChain } from "./verify.ts";

const LOCAL: Caller = { role: "local", name: "recovery" };

/**
 * Has the token note the end of the chain as it is, whatever it had noted: for a database that lost its
 * newest records for a known reason. The chain must hold from its first record on and end with `end`. What
 * the token had noted before is on record afterwards.
 *
 * Throws `LedgerHeld` while a vault runs; `UserError` when the chain does not hold or has another end
 */
export async function acceptHead(
  parts: { databaseUrl: string; database: Database; token: Token; clock: Clock; log: Logger },
  end: Head,
): Promise<Head> {
  const { databaseUrl, database, token } = parts;
  const { head: noted } = await token.notedHead();
  const ledger = await openLedger(databaseUrl, async () => {
    const verdict = await verifyChain(database, token);
    if (!verdict.intact) {
      throw new UserError(
        `The audit chain is broken at record ${verdict.seq}: put the genuine record back first`,
      );
    }
    if (verdict.head.seq !== end.seq || !verdict.head.mac.equals(end.mac)) {
      throw new UserError(
        `The chain ends with ${verdict.head.seq}:${verdict.head.mac.toString("hex")}, not with the head that you gave`,
      );
    }
    await token.noteHead(verdict.head, true);
  });
  await closeLedger(ledger.client);
  const journal = await openJournal({ ...parts, register: createRegister(), reopened: () => {} });
  try {
    const before = noted === null ? "none" : `${noted.seq}:${Buffer.from(noted.mac).toString("hex")}`;
    const detail = { noted: before, accepted: String(end.seq) };
    await journal.change(async () => ({
      value: undefined,
      entry: { caller: LOCAL, statement: "head_accept", outcome: "granted", detail },
    }));
    return journal.head();
  } finally {
    await journal.close();
  }
}
