import { expect, test } from "vitest";
import { requestMailKinds } from "../../../src/accounts/mailings/kinds.ts";
import { renderMail } from "../../../src/accounts/mailings/render.ts";
import type { Subject } from "../../../src/accounts/mailings/subjects.ts";
import { mailContent } from "../../../src/accounts/mailings/texts.ts";
import { linkContent } from "../../../src/accounts/notices/links.ts";
import { NOW, PLACE, subject } from "./mail_samples.ts";

const ONE = { now: NOW, total: 1 };

const shownOf = (text: string) => text.replaceAll("\u2060", "");

test("a mail about one request says who asks, for what and until when", () => {
  const { subject: title, text } = renderMail(mailContent("request_waits", [subject()], ONE), PLACE);
  expect(title).toBe("“Refund helper” asks to act for you (2 permissions, until 28 Dec 2026)");
  expect(text).toContain("- Send payments\n- Read data");
  expect(text).toContain("Nobody has proved who runs this platform.");
  expect(text).toContain("The request lapses on 5 Dec 2026.");
  expect(text).toContain("Look at the request: https://deputize.example.com/console/requests/req_1");
});

test("a mail names a publisher that has no verified domain", () => {
  const request = subject({ publisher_name: "Shop Ltd" });
  const { text } = renderMail(mailContent("request_waits", [request], ONE), PLACE);
  expect(text).toContain(
    "An account that calls itself “Shop Ltd” runs this platform. It has proved no domain.",
  );
});

test("a mail quotes the purpose in the words of whoever asks", () => {
  const { text } = renderMail(
    mailContent("request_waits", [subject({ purpose: "Refund customers who cancel" })], ONE),
    PLACE,
  );
  expect(text).toContain("Why, in the words of whoever asked: “Refund customers who cancel”");
});

test("a mail names a custom scope with its platform's label, and sensitive scopes first", () => {
  const refunds = { label: "Refund orders", description: "Pays customers back", sensitive: true };
  const request = subject({
    requested_scope: ["data:read", "custom:orders:refund", "custom:orders:list"],
    scope_descriptions: { "custom:orders:refund": refunds },
  });
  const { text } = renderMail(mailContent("request_waits", [request], ONE), PLACE);
  expect(shownOf(text)).toContain(
    "- Do what its platform calls “Refund orders”\n- Read data\n- Do what its platform calls “custom:orders:list”",
  );
});

test("a mail about a published platform names its organization and verified domain", () => {
  const published = subject({ publisher_name: "Webshop GmbH", publisher_domain: "webshop.example" });
  const { text } = renderMail(mailContent("request_waits", [published], ONE), PLACE);
  expect(shownOf(text)).toContain(
    "“Webshop GmbH” runs this platform and has proved that it owns webshop.example.",
  );
});

test.each(requestMailKinds)("a mail of the kind %s contains no link that strangers chose", (kind) => {
  const names = [
    "https://evil.example/x",
    "evil.example",
    "mailto:a@evil.example",
    "a” Nothing happens: <a href=x>",
  ];
  for (const name of names) {
    const hostile = subject({
      ...{ agent_name: name, platform_name: name, publisher_name: name, publisher_domain: "shop.example" },
      ...{
        organization_name: name,
        decided_by: name,
        requested_scope: [`custom:${name}`],
        status: "approved",
      },
      ...{ approved_scope: [`custom:${name}`], cert_id: "cert_1", purpose: name },
      scope_descriptions: { [`custom:${name}`]: { label: name, description: name, sensitive: true } },
    });
    for (const subjects of [[hostile], [hostile, hostile]] as const) {
      const mail = renderMail(mailContent(kind, subjects, { now: NOW, total: subjects.length }), PLACE);
      const links = [...(mail.html?.matchAll(/href="([^"]*)"/g) ?? [])].map(([, url]) => url);
      expect(links.length).toBeGreaterThan(0);
      for (const link of links) expect(link).toMatch(/^https:\/\/deputize\.example\.com\//);
      expect(mail.html).not.toContain("<a href=x>");
      const plain = mail.text.replaceAll(/https:\/\/deputize\.example\.com\/\S*/g, "");
      expect(`${mail.subject} ${plain}`).not.toMatch(
        /evil\.example|https?:\/\/|mailto:[^\u2060]|@evil|”\s*Nothing happens:/,
      );
    }
  }
});

test.each(["ann@evil.example", "https://evil.example/#ann", "<a href=x>evil.example</a>"])(
  "a mail about the linked user %j shows the name without a link, and so that people can copy it",
  (username) => {
    const people = { member: "ann@webshop.example", linked_by: "owner@webshop.example" };
    const link = { account_id: subject().account_id, cluster: "c1", username, ...people };
    const { text, html = "" } = renderMail(linkContent(JSON.stringify(link)), PLACE);
    expect(text).toContain(`\n- User: ${username}\n`);
    expect(html).not.toMatch(/evil\.example|@evil|https:\/\/evil|<a href=x>/);
    const shown = html
      .replaceAll(/<[^>]*>/g, "")
      .replaceAll(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
    expect(shown).toContain(`User: ${username}`);
  },
);

test("a mail lists ten requests, and counts the others", () => {
  const many = Array.from({ length: 14 }, () => subject()) as [Subject, ...Subject[]];
  const { items } = mailContent("request_waits", many, { now: NOW, total: 214 });
  expect(items).toHaveLength(11);
  expect(items.at(-1)).toBe("and 204 more");
});
