import { expect, test } from "vitest";
import { CLAIM_SECONDS } from "../../src/accounts/mail/retries.ts";
import {
  type ClaimedNotice,
  claimNotices,
  recordFailure,
  recordSent,
} from "../../src/accounts/notices/queue.ts";
import { addSeconds } from "../../src/clock.ts";
import { useDatabase } from "../events/support/database.ts";
import { insertRecords } from "../proofs/records.ts";
import { insertNotice } from "../support/account_rows.ts";

const home = useDatabase();

test("a process whose claim has expired cannot change the notice", async () => {
  const { accountId } = await insertRecords(home.database, 0);
  const now = new Date();
  const later = addSeconds(now, CLAIM_SECONDS);
  await insertNotice(home.database, { accountId, at: now });
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
