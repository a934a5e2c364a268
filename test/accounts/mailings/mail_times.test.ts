import { expect, test } from "vitest";
import type { Subject } from "../../../src/accounts/mailings/subjects.ts";
import { mailContent } from "../../../src/accounts/mailings/texts.ts";
import { lengthOf } from "../../../src/accounts/mailings/times.ts";

const NOW = new Date("2026-11-28T10:42:07Z");
const SUBJECT: Subject = {
  ...{ request_id: "req_1", account_id: "7d6c3a52-55a7-4ff0-8f0c-2a5b8e6f1a11", organization_name: null },
  ...{ agent_name: "Refund helper", platform_name: "Webshop", publisher_name: null, publisher_domain: null },
  ...{
    status: "pending",
    requested_scope: ["data:read"],
    scope_descriptions: {},
    purpose: null,
    asked_by: null,
  },
  ...{ requested_expires_at: null, requested_expires_in: null, expires_at: new Date("2026-12-05T00:00:00Z") },
  ...{ decided_by: null, approved_scope: null, cert_id: null, ends_at: null },
};

const at = (time: string) => ({ requested_expires_at: new Date(time) });

test.each([
  [{ requested_expires_in: 900 }, "for 15 minutes", "It would end 15 minutes after the approval."],
  [{ requested_expires_in: 47 * 3600 }, "for 47 hours", "It would end 47 hours after the approval."],
  [{ requested_expires_in: 172_800 }, "until 30 Nov 2026", "It would end on 30 Nov 2026."],
  [at("2026-11-28T11:00:00Z"), "until 28 Nov 2026", "It would end on 28 Nov 2026 at 11:00 UTC."],
  [at("2026-11-30T10:42:07Z"), "until 30 Nov 2026", "It would end on 30 Nov 2026."],
  [{}, "until you end it", "It asks for no end: you choose the end when you approve."],
])("a mail about a request with %j says when the authority would end", (fields, short, sentence) => {
  const { subject, after } = mailContent("request_waits", [{ ...SUBJECT, ...fields }], {
    now: NOW,
    total: 1,
  });
  expect(subject).toContain(`(1 permission, ${short})`);
  expect(after).toContain(sentence);
});

test("a mail about an approval gives the time of day of an end within two days", () => {
  const lent = { ...SUBJECT, status: "approved" as const, ends_at: new Date("2026-11-28T10:57:07Z") };
  const { after } = mailContent("authority_lent", [lent], { now: NOW, total: 1 });
  expect(after).toContain("It ends on 28 Nov 2026 at 10:57 UTC.");
});

test("a mail about several requests that lapse gives the time of day of each lapse", () => {
  const lapses = { ...SUBJECT, expires_at: new Date("2026-11-29T09:15:00Z") };
  const { items } = mailContent("request_lapses", [lapses, lapses], { now: NOW, total: 2 });
  const item = "“Refund helper” of “Webshop”: lapses on 29 Nov 2026 at 09:15 UTC";
  expect(items).toEqual([item, item]);
});

test.each([
  [1, "1 minute"],
  [61, "2 minutes"],
  [3600, "1 hour"],
  [7199, "2 hours"],
  [7200, "2 hours"],
  [7201, "2 hours 1 minute"],
  [8999, "2 hours 30 minutes"],
])("lengthOf returns %i seconds as %j", (seconds, words) => {
  expect(lengthOf(seconds)).toBe(words);
});
