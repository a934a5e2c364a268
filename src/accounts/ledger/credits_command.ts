import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { followDatabase } from "../../db/clock/service_clock.ts";
import { type Database, openDatabase } from "../../db/database.ts";
import { throwRefusal } from "../../db/refusals.ts";
import { ApiError } from "../../errors.ts";
import { isUuid, newId } from "../../ids.ts";
import { exitStatus, UsageError } from "../../input/exit_status.ts";
import { pageQuery } from "../../input/pagination.ts";
import { oneLine } from "../../input/schemas.ts";
import { emailAddress } from "../email.ts";
import { formatUsd, parseUsd, USD_RULE } from "./amounts.ts";
import { readCreditState, readPostings } from "./credits_route.ts";
import { AccountWithoutBalance, GrantError, grantCredits } from "./grants.ts";
import { changeTerms } from "./terms.ts";

/** Options of `deputize credits`, as given on the command line. */
export type CreditsOptions = { account: string; json?: boolean };
export type GrantOptions = CreditsOptions & { amount: string; reason: string; reference?: string };
export type ListOptions = CreditsOptions & { limit?: string; cursor?: string };
export type TermsOptions = CreditsOptions & { postpaid?: boolean; prepaid?: boolean; reason: string };

type Report = { json: Record<string, unknown>; lines: string[] };

/** A refused command, which changed nothing. The message says why. */
class CreditsError extends Error {}

type Account = { accountId: string; email: string };

const reasonText = oneLine(200);
const referenceText = z.string().regex(/^[\x21-\x7e]{1,128}$/);

/** A command whose options are valid. */
type Command = (db: Database, clock: Clock) => Promise<Report>;

function readGrant(options: GrantOptions & { reference: string }): Command {
  const amount = parseUsd(options.amount);
  if (amount === undefined) throw new UsageError(`--amount must be ${USD_RULE}`);
  const reason = readReason(options.reason);
  const reference = referenceText.safeParse(options.reference);
  if (!reference.success) {
    throw new UsageError("--reference must be 1 to 128 visible ASCII characters without a space");
  }
  const named = readAccount(options.account);
  return (db, clock) => grant(db, clock, named, { amount, reason, reference: reference.data });
}

async function grant(
  db: Database,
  clock: Clock,
  named: NamedAccount,
  wish: { amount: number; reason: string; reference: string },
): Promise<Report> {
  const account = await findAccount(db, named);
  const wanted = { accountId: account.accountId, ...wish };
  const posted = await grantCredits(db, wanted, clock.now());
  const json = {
    account_id: account.accountId,
    email: account.email,
    posting_id: posted.postingId.toString("hex"),
    posted_at: posted.postedAt.toISOString(),
    amount_micro_usd: posted.amount,
    reason: posted.reason,
    reference: posted.reference,
    repeated: posted.repeated,
    balance_micro_usd: posted.balance,
  };
  const done = posted.repeated ? "Already granted before, not granted again" : "Granted";
  return {
    json,
    lines: [
      `${done}: ${formatUsd(posted.amount)} USD`,
      ...about(account),
      `Reason     ${json.reason}`,
      `Reference  ${json.reference}`,
      `Posting    ${json.posting_id}`,
      `Balance    ${formatUsd(posted.balance)} USD`,
    ],
  };
}

function readReason(text: string): string {
  const reason = reasonText.safeParse(text);
  if (!reason.success) throw new UsageError("--reason must be one line of 1 to 200 characters");
  return reason.data;
}

function readTerms(options: TermsOptions): Command {
  const { postpaid = false, prepaid = false } = options;
  if (postpaid === prepaid) throw new UsageError("use either --postpaid or --prepaid");
  const terms = postpaid ? "postpaid" : "prepaid";
  const reason = readReason(options.reason);
  const named = readAccount(options.account);
  return (db, clock) => changeTermsOf(db, clock, named, { terms, reason });
}

async function changeTermsOf(
  db: Database,
  clock: Clock,
  named: NamedAccount,
  { terms, reason }: { terms: "postpaid" | "prepaid"; reason: string },
): Promise<Report> {
  const account = await findAccount(db, named);
  const changed = await changeTerms(db, { accountId: account.accountId, terms, reason }, clock.now());
  return {
    json: { account_id: account.accountId, email: account.email, terms, changed },
    lines: [
      changed ? `The account is now ${terms}` : `The account was ${terms} already; nothing was changed`,
      ...about(account),
    ],
  };
}

async function show(db: Database, named: NamedAccount): Promise<Report> {
  const account = await findAccount(db, named);
  const state = await readCreditState(db, account.accountId);
  const { balance_micro_usd: balance, price_micro_usd: price, low_at_micro_usd: lowAt } = state;
  return {
    json: { account_id: account.accountId, email: account.email, ...state },
    lines: [
      ...about(account),
      `Balance    ${state.balance_usd} USD, enough for ${Math.floor(balance / price)} decisions of ${formatUsd(price)} USD`,
      `Low at     ${formatUsd(lowAt)} USD`,
      `Terms      ${state.terms}`,
    ],
  };
}

function readList(options: ListOptions): Command {
  const page = pageQuery.safeParse({ limit: options.limit, cursor: options.cursor });
  if (!page.success) {
    throw new UsageError("--limit must be a number from 1 to 100, and --cursor must not be too long");
  }
  const named = readAccount(options.account);
  return (db) => list(db, named, page.data);
}

async function list(db: Database, named: NamedAccount, page: z.infer<typeof pageQuery>): Promise<Report> {
  const account = await findAccount(db, named);
  const { items, next_cursor } = await readPostings(db, account.accountId, page);
  const lines = items.map((item) =>
    [
      item.posted_at,
      item.kind.padEnd("verification".length),
      `${formatUsd(item.amount_micro_usd)} USD`.padStart(18),
      ...[item.terms, item.reference, item.reason].filter((text) => text !== undefined),
    ].join("  "),
  );
  return {
    json: { account_id: account.accountId, email: account.email, items, next_cursor },
    lines: [
      ...about(account),
      ...(lines.length > 0 ? lines : ["No postings"]),
      ...(next_cursor === null ? [] : [`For more: --cursor ${next_cursor}`]),
    ],
  };
}

type Stream = { write(text: string): unknown };

/** Dependencies of the commands. Without `clock`, the database's clock counts. */
export type CreditsCommandsDeps = { url: string; clock?: Clock; out: Stream; err: Stream };

/** The commands of `deputize credits`. */
export type CreditsCommands = {
  grant(options: GrantOptions): Promise<number>;
  show(options: CreditsOptions): Promise<number>;
  list(options: ListOptions): Promise<number>;
  terms(options: TermsOptions): Promise<number>;
};

/**
 * Creates commands that print their result, or a failure as one line on the error stream. Each returns an
 * exit status: 0 for success, 1 for a refusal, 2 for a wrong command line, 3 if the database could not be
 * used. After status 3, a grant may have been made. The error line contains the reference with which it can
 * be repeated safely.
 */
export function createCreditsCommands(deps: CreditsCommandsDeps): CreditsCommands {
  return {
    grant(typed) {
      const options = { ...typed, reference: typed.reference ?? newId() };
      const hint = `; to repeat it and grant once, add --reference ${options.reference}`;
      return run(deps, options, () => readGrant(options), hint);
    },
    show: (options) =>
      run(deps, options, () => {
        const named = readAccount(options.account);
        return (db) => show(db, named);
      }),
    list: (options) => run(deps, options, () => readList(options)),
    terms: (options) => run(deps, options, () => readTerms(options)),
  };
}

async function run(
  { url, clock, out, err }: CreditsCommandsDeps,
  { json: asJson }: CreditsOptions,
  read: () => Command,
  hint = "",
): Promise<number> {
  const db = openDatabase({ url, name: "deputize-credits", max: 1, onError: () => {} });
  try {
    const command = read();
    const { json, lines } = await command(db, clock ?? (await followDatabase(url)));
    out.write(asJson ? `${JSON.stringify(json)}\n` : `${lines.join("\n")}\n`);
    return 0;
  } catch (error) {
    throwRefusal(error);
    const refusal = refusalOf(error);
    const complaint = refusal?.message ?? `the database could not be used (${reasonOf(error)})${hint}`;
    err.write(`deputize credits: ${complaint}\n`);
    return refusal?.status ?? exitStatus.unavailable;
  } finally {
    await db.destroy();
  }
}

/** Returns message and exit status of a refusal, or `undefined` for another error. */
function refusalOf(error: unknown): { message: string; status: number } | undefined {
  if (!(error instanceof Error)) return undefined;
  const { message } = error;
  if (isUsageError(error)) return { message, status: exitStatus.usage };
  const isRefusal = [CreditsError, GrantError, AccountWithoutBalance, ApiError].some(
    (type) => error instanceof type,
  );
  return isRefusal ? { message, status: exitStatus.failed } : undefined;
}

/** A cursor of another list is refused by the query. */
function isUsageError(error: Error): boolean {
  return error instanceof UsageError || (error instanceof ApiError && error.code === "invalid_request");
}

/** An `AggregateError` contains one error for each address that was tried. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  return error instanceof Error ? error.message : String(error);
}

type NamedAccount = { text: string; where: { email: string } | { account_id: string } };

/** Throws `UsageError` unless the text is an id or an e-mail address. */
function readAccount(text: string): NamedAccount {
  const email = emailAddress.safeParse(text);
  if (email.success) return { text, where: { email: email.data } };
  const id = text.toLowerCase();
  if (!isUuid(id)) throw new UsageError("--account must be an account id or an e-mail address");
  return { text, where: { account_id: id } };
}

/** Throws `CreditsError` if there is no such account, or if its onboarding is not complete. */
async function findAccount(db: Database, { text, where }: NamedAccount): Promise<Account> {
  const row = await db("accounts").where(where).first("account_id", "email", "onboarding_step");
  if (row === undefined) throw new CreditsError(`There is no account ${text}`);
  if (row.onboarding_step !== "complete") throw new AccountWithoutBalance();
  return { accountId: row.account_id, email: row.email };
}

function about({ accountId, email }: Account): string[] {
  return [`Account    ${accountId} (${email})`];
}
