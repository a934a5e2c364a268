import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { grantAlphaCredits } from "../../../src/accounts/ledger/amounts.ts";
import {
  type CreditsCommands,
  createCreditsCommands,
  type GrantOptions,
  type ListOptions,
  type TermsOptions,
} from "../../../src/accounts/ledger/credits_command.ts";
import { systemClock } from "../../../src/clock.ts";
import { useDatabase } from "../../events/support/database.ts";
import { insertRecords, type Records } from "../../proofs/records.ts";

const MAIN = new URL("../../../src/main.ts", import.meta.url).pathname;
const home = useDatabase();

type Ended = { status: number | null; out: string; err: string };

async function run(url: string | undefined, ...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [MAIN, "credits", ...args], {
    env: { PATH: process.env.PATH, ...(url === undefined ? {} : { DATABASE_URL: url }) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [out, err] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()]);
  return { status: await exit, out: out.join(""), err: err.join("") };
}

async function call(work: (commands: CreditsCommands) => Promise<number>, url = home.url): Promise<Ended> {
  const output = { out: "", err: "" };
  const stream = (name: keyof typeof output) => ({
    write: (text: string) => {
      output[name] += text;
    },
  });
  const commands = createCreditsCommands({
    ...{ url, clock: systemClock, out: stream("out"), err: stream("err") },
  });
  const status = await work(commands);
  return { status, ...output };
}

const json = ({ out }: Ended) => JSON.parse(out);

type Owner = Records & { email: string };

async function owner(): Promise<Owner> {
  const records = await insertRecords(home.database, 0);
  const byAccount = { account_id: records.accountId };
  await home.database("balances").where(byAccount).delete();
  const given = { accountId: records.accountId, amount: 10_000_000 };
  await home.database.transaction((tx) => grantAlphaCredits(tx, given, new Date("2026-01-01T00:00:00Z")));
  const account = await home.database("accounts").where(byAccount).first("email");
  return { ...records, email: account?.email ?? "" };
}

const grant = (options: Partial<GrantOptions> & { account: string }, url?: string) =>
  call((commands) => commands.grant({ amount: "2.5", reason: "invoice paid", ...options }), url);

describe("deputize credits", () => {
  test("grants credit to an email address, but grants nothing more to its account id with the same reference", async () => {
    const { accountId, email } = await owner();
    const first = await grant({ account: email.toUpperCase(), reference: "inv-7", json: true });
    expect([first.status, first.err]).toEqual([0, ""]);
    const granted = json(first);
    expect(granted).toEqual({
      account_id: accountId,
      email,
      posting_id: expect.stringMatching(/^[0-9a-f]{64}$/),
      posted_at: expect.any(String),
      amount_micro_usd: 2_500_000,
      reason: "invoice paid",
      reference: "inv-7",
      repeated: false,
      balance_micro_usd: 12_500_000,
    });
    const again = await grant({ account: accountId, reference: "inv-7", json: true });
    expect(json(again)).toEqual({ ...granted, repeated: true });
    const lines = await grant({ account: accountId, reference: "inv-7" });
    expect(lines.out).toContain("Already granted before, not granted again: 2.50 USD\n");
    expect(lines.out).toContain("Balance    12.50 USD\n");
    expect(await grant({ account: accountId, reference: "inv-7", amount: "2" })).toEqual({
      status: 1,
      out: "",
      err: "deputize credits: The reference inv-7 was used before, to grant 2.50 USD to this account; use a new reference\n",
    });
  });

  test("shows an account's balance, and lists its postings page by page", async () => {
    const { accountId, email } = await owner();
    const made = json(await grant({ account: email, json: true }));
    expect(made.reference).toMatch(/^[0-9a-f-]{36}$/);
    const shown = await call((commands) => commands.show({ account: accountId }));
    expect(shown.out).toBe(
      `Account    ${accountId} (${email})\n` +
        "Balance    12.50 USD, enough for 6250 decisions of 0.002 USD\nLow at     2.50 USD\n" +
        "Terms      prepaid\n",
    );
    expect(json(await call((commands) => commands.show({ account: email, json: true })))).toEqual({
      account_id: accountId,
      email,
      balance_micro_usd: 12_500_000,
      balance_usd: "12.50",
      price_micro_usd: 2_000,
      low_at_micro_usd: 2_500_000,
      currency: "USD",
      terms: "prepaid",
    });
    const list = (more: Partial<ListOptions>) =>
      call((commands) => commands.list({ account: accountId, limit: "1", ...more }));
    const page = json(await list({ json: true }));
    expect(page.items).toMatchObject([
      { kind: "grant", amount_micro_usd: 2_500_000, reason: "invoice paid" },
    ]);
    const last = await list({ cursor: page.next_cursor });
    expect(last.out).toMatch(/^2026-01-01T00:00:00.000Z {2}alpha_credit {11}10\.00 USD$/m);
    expect(last.out).not.toContain("--cursor");
  });

  test.each([
    ["amount", "0"],
    ["amount", "-5"],
    ["amount", "0.0000001"],
    ["amount", "1000001"],
    ["amount", "ten"],
    ["reason", ""],
    ["reason", "two\nlines"],
    ["reference", "with space"],
    ["account", "nobody"],
  ])("refuses --%s %j with one line that names the option, and grants nothing", async (option, value) => {
    const { accountId, email } = await owner();
    const { status, out, err } = await grant({ account: email, [option]: value });
    expect([status, out]).toEqual([2, ""]);
    expect(err).toMatch(new RegExp(`^deputize credits: --${option} must be [^\n]*\n$`));
    expect(await home.database("ledger_postings").where({ account_id: accountId })).toHaveLength(1);
  });

  test("refuses unknown and incomplete accounts, and invalid pages", async () => {
    const { accountId } = await owner();
    const nobody = randomUUID();
    expect(await call((commands) => commands.show({ account: nobody }))).toEqual({
      status: 1,
      out: "",
      err: `deputize credits: There is no account ${nobody}\n`,
    });
    const list = (more: Partial<ListOptions>) =>
      call((commands) => commands.list({ account: accountId, ...more }));
    expect(await list({ cursor: "x" })).toEqual({
      status: 2,
      out: "",
      err: "deputize credits: cursor: is not a cursor of this list\n",
    });
    expect((await list({ limit: "0" })).status).toBe(2);
    const step = { onboarding_step: "profile" as const };
    await home.database("accounts").where({ account_id: accountId }).update(step);
    expect((await grant({ account: accountId })).err).toContain("has not completed its onboarding");
  });

  test("makes an account postpaid once, and lists the change with its reason", async () => {
    const { accountId, email } = await owner();
    const change = (options: Partial<TermsOptions>) =>
      call((commands) => commands.terms({ account: email, reason: "contract 7", ...options }));
    expect((await change({ postpaid: true })).out).toContain("The account is now postpaid\n");
    expect(json(await change({ postpaid: true, json: true }))).toEqual({
      account_id: accountId,
      email,
      terms: "postpaid",
      changed: false,
    });
    const listed = await call((commands) => commands.list({ account: accountId }));
    expect(listed.out).toMatch(/ {2}terms +0\.00 USD {2}postpaid {2}contract 7\n/);
    expect((await change({ prepaid: true })).out).toContain("The account is now prepaid\n");
  });

  test.each([
    [{}, "use either --postpaid or --prepaid"],
    [{ postpaid: true, prepaid: true }, "use either --postpaid or --prepaid"],
    [{ postpaid: true, reason: "two\nlines" }, "--reason must be one line of 1 to 200 characters"],
  ])("refuses to change the terms with %j", async (options, complaint) => {
    const { email } = await owner();
    const refused = await call((commands) =>
      commands.terms({ account: email, reason: "contract 7", ...options }),
    );
    expect(refused).toEqual({ status: 2, out: "", err: `deputize credits: ${complaint}\n` });
  });

  test("exits with 3 if there is no database, and names the reference with which to repeat the grant", async () => {
    const nowhere = new URL(home.url);
    nowhere.port = "1";
    expect((await grant({ account: randomUUID(), amount: "ten" }, nowhere.href)).status).toBe(2);
    const away = await grant({ account: randomUUID() }, nowhere.href);
    expect([away.status, away.out]).toEqual([3, ""]);
    expect(away.err).toMatch(
      /^deputize credits: the database could not be used \(.*\); to repeat it and grant once, add --reference [0-9a-f-]{36}\n$/,
    );
    const same = await grant({ account: randomUUID(), reference: "inv-9" }, nowhere.href);
    expect(same.err).toContain("--reference inv-9\n");
  });
});

test("deputize credits accepts its options, and exits with the command's status", async () => {
  const { accountId, email } = await owner();
  const options = ["--account", email, "--reason", "invoice paid"];
  const granted = await run(home.url, "grant", ...options, "--amount", "2.5", "--json");
  expect([granted.status, json(granted).balance_micro_usd]).toEqual([0, 12_500_000]);
  const negative = await run(home.url, "grant", ...options, "--amount", "-5");
  expect([negative.status, negative.out]).toEqual([2, ""]);
  const list = await run(home.url, "list", "--account", accountId, "--limit", "1", "--json");
  expect(json(list).items).toHaveLength(1);
  const [unset, lacking] = [await run(undefined, "show", "--account", email), await run(home.url, "show")];
  expect([unset.status, lacking.status]).toEqual([78, 2]);
}, 180_000);
