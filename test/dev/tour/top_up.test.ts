import { expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { topUp } from "../../../src/dev/tour/top_up.ts";
import { useDatabase } from "../../events/support/database.ts";
import { insertRecords } from "../../proofs/records.ts";

const home = useDatabase();
const clock = systemClock;

async function owner(balance: number) {
  const { accountId } = await insertRecords(home.database, balance);
  const own = { account_id: accountId };
  const account = await home.database("accounts").where(own).first("email");
  const state = async () => ({
    balance: (await home.database("balances").where(own).first())?.balance_micro_usd,
    granted: await home.database("ledger_postings").where(own).pluck("amount_micro_usd"),
  });
  return { email: account?.email ?? "", state };
}

test("topUp raises the balance to the amount and grants nothing the second time", async () => {
  const { email, state } = await owner(4_000);
  const add = () => topUp({ url: home.url, email, to: 5_000_000, clock });
  expect(await add()).toContain(`${email} was granted 4.996 USD and has 5.00 USD`);
  await add();
  expect(await state()).toEqual({ balance: 5_000_000, granted: [4_996_000] });
});

test("topUp leaves a higher balance and a missing account unchanged", async () => {
  const { email, state } = await owner(9_000_000);
  expect(await topUp({ url: home.url, email, to: 5_000_000, clock })).toContain("has 9.00 USD");
  expect(await state()).toEqual({ balance: 9_000_000, granted: [] });
  const nobody = { url: home.url, email: "nobody@example.test", to: 5_000_000, clock };
  expect(await topUp(nobody)).toBe("new accounts start with 5.00 USD");
});
