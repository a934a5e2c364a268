import { formatUsd } from "../../accounts/ledger/amounts.ts";
import { grantCredits } from "../../accounts/ledger/grants.ts";
import type { Clock } from "../../clock.ts";
import { openDatabase } from "../../db/database.ts";
import { newId } from "../../ids.ts";

/**
 * Raises an account's balance to at least `to` micro-USD. Does not create a missing account, since new
 * accounts start with this amount. Returns a description for readers.
 */
export async function topUp({
  url,
  email,
  to,
  clock,
}: {
  url: string;
  email: string;
  to: number;
  clock: Clock;
}): Promise<string> {
  const database = openDatabase({ url, name: "deputize-dev", max: 1, onError: () => {} });
  try {
    const account = await database("accounts as a")
      .join("balances as b", "b.account_id", "a.account_id")
      .where("a.email", email)
      .first("a.account_id", "b.balance_micro_usd");
    const starts = `new accounts start with ${formatUsd(to)} USD`;
    if (account === undefined) return starts;
    const amount = to - account.balance_micro_usd;
    if (amount <= 0) return `${email} has ${formatUsd(account.balance_micro_usd)} USD; ${starts}`;
    const reference = `trial-${newId()}`;
    const grant = { accountId: account.account_id, amount, reason: "npm start -- --credits", reference };
    const { balance } = await grantCredits(database, grant, clock.now());
    return `${email} was granted ${formatUsd(amount)} USD and has ${formatUsd(balance)} USD; ${starts}`;
  } finally {
    await database.destroy();
  }
}
