import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requestMailKinds } from "../../../src/accounts/mailings/kinds.ts";
import { renderMail } from "../../../src/accounts/mailings/render.ts";
import type { Subject } from "../../../src/accounts/mailings/subjects.ts";
import { mailContent } from "../../../src/accounts/mailings/texts.ts";
import { linkContent } from "../../../src/accounts/notices/links.ts";
import { noticeContent } from "../../../src/accounts/notices/texts.ts";
import type { RequestMailKind } from "../../../src/db/event_tables.ts";
import { violations } from "../../console/support/axe.ts";
import { program } from "../../console/support/in_chromium.ts";
import { startChromium } from "../../support/chromium.ts";
import { NOW, PLACE, subject } from "./mail_samples.ts";

/** The longest names that strangers can choose, without a place to break the line. */
const NAME = "W".repeat(100);
const account_id = subject().account_id;
const occurred_at = NOW.toISOString();
const place = { ...PLACE, word: "service", contact: "help@example.test" };
const owner = { organization_name: NAME };

function requestMail(kind: RequestMailKind, fields: Partial<Subject>, total: number) {
  const each = subject({
    ...{ agent_name: NAME, platform_name: NAME, organization_name: NAME, asked_by: `${NAME}@example.com` },
    ...{ requested_scope: [`custom:${NAME}`, "payments:send"], approved_scope: [`custom:${NAME}`] },
    ...{ purpose: NAME, cert_id: "cert_1", ...fields },
  });
  return renderMail(mailContent(kind, [each, each], { now: NOW, total }), PLACE);
}

const credit = { account_id, balance_micro_usd: 1_000, low_at_micro_usd: 2_000, price_micro_usd: 2_000 };
const suspended = { account_id, connection_id: account_id, reason: "failing", occurred_at } as const;
const link = { account_id, cluster: NAME, username: NAME, member: `${NAME}@example.com`, linked_by: NAME };

const MAILS = {
  ...Object.fromEntries(
    requestMailKinds.flatMap((kind) => [
      [kind, requestMail(kind, { status: kind.endsWith("s") ? "pending" : "approved" }, 1)],
      [`${kind} of many`, requestMail(kind, {}, 230)],
    ]),
  ),
  lapse: requestMail("request_decided", { status: "lapsed" }, 1),
  "low credit": renderMail(
    noticeContent({ type: "credits.low", ...credit, level: "low", occurred_at }, owner, place),
    { baseUrl: PLACE.baseUrl },
  ),
  "suspended callback": renderMail(noticeContent({ type: "webhook.suspended", ...suspended }, owner, place), {
    baseUrl: PLACE.baseUrl,
  }),
  "linked user": renderMail(linkContent(JSON.stringify(link)), { baseUrl: PLACE.baseUrl }),
};

describe.skipIf(program === undefined)("a mail in Chromium (needs Debian's chromium)", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startChromium(program ?? "");
  });
  afterAll(() => browser.close());

  test.each(Object.keys(MAILS) as (keyof typeof MAILS)[])(
    "the mail of the kind %s fits a phone, and has no accessibility faults in either theme",
    async (name) => {
      for (const colorScheme of ["light", "dark"] as const) {
        const page = await browser.newPage({ viewport: { width: 320, height: 800 }, colorScheme });
        await page.setContent(MAILS[name]?.html ?? "");
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(320);
        expect(await violations(page)).toEqual([]);
        await page.close();
      }
    },
  );
});
