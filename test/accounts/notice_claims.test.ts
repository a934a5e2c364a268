import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import {
  CLAIM_SECONDS,
  type ClaimedNotice,
  claimNotices,
  recordFailure,
  recordSent,
} from "../../src/accounts/notices/queue.ts";
import { addSeconds } from "../../src/clock.ts";
import { useDatabase } from "../events/support/database.ts";
import { insertRecords } from "../proofs/records.ts";

const home = useDatabase();

test("a process whose claim has expired cannot change the notice", async () => {
  const { accountId } = await insertRecords(home.database, 0);
  const now = new Date();
  const later = addSeconds(now, CLAIM_SECONDS);
  await home.database("notices").insert({
    ...{ event_id: randomUUID(), account_id: accountId, type: "credit.low", payload: "{}" },
    ...{ state: "waiting", next_attempt_at: now, created_at: now },
  });
  const claim = async (at: Date) => (await claimNotices(home.database, 1, at))[0] as ClaimedNotice;
  const late = await claim(now);
  expect(await claim(addSeconds(later, -1))).toBeUndefined();
  const current = await claim(later);
  const notice = () => home.database("notices").first();
  const claimed = await notice();
  await recordFailure(home.database, late, later);
  await recordSent(home.database, late, later);
  expect(await notice()).toEqual(claimed);
  await recordSent(home.database, current, later);
  expect(await notice()).toMatchObject({ state: "sent" });
});
