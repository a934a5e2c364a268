import { readWaiting } from "../../accounts/notices/queue.ts";
import { readMailsUnderWay } from "../../accounts/sign_in/sign_in_mails.ts";
import type { Database } from "../../db/database.ts";
import { figureOf } from "../measured.ts";
import { type Figure, figure, type Part } from "../part.ts";

/** Seconds after which a mail that no server took over is none that is being sent. */
const LOST_SECONDS = 60;

/** Notices that wait for the mail server, and sign-in codes on their way to it. */
export function mailPart({ database }: { database: Database }): Part {
  return {
    name: "mail",
    async read(at) {
      const { waiting, oldestSeconds } = await readWaiting(database, at);
      return [
        figureOf("deputize_notices_waiting", { value: waiting }, at),
        figureOf("deputize_notices_oldest_seconds", { value: oldestSeconds }, at),
        ...(await codeFigures(database, at)),
      ];
    },
  };
}

async function codeFigures(database: Database, at: Date): Promise<Figure[]> {
  const { underWay, oldestSeconds, lastMailedAt } = await readMailsUnderWay(database, at);
  return [
    figure({
      name: "sign_in_mails_under_way",
      value: underWay,
      at,
      state: oldestSeconds > LOST_SECONDS ? "look" : "well",
    }),
    figure({ name: "sign_in_mails_last", value: lastMailedAt?.toISOString() ?? null, unit: "time", at }),
  ];
}
