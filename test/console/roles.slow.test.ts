import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Page } from "../../src/console/core/page.ts";
import { consolePages } from "../../src/console/pages.ts";
import { texts } from "../../src/console/texts/texts.ts";
import { type MemberRole, memberRoles } from "../../src/route.ts";
import { documentedRows } from "../organizations/role_table.ts";
import { startApi, type TestApi } from "../support/api.ts";
import { type Shown, unescaped } from "./support/console.ts";
import { pathOf, readerOf, type Seen, viewerOf, visits } from "./support/visits.ts";

const table = new Map(documentedRows().map(({ operation, roles }) => [operation, roles]));
const pages = consolePages.filter(
  ({ access, path }) => access === "onboarded" && path.startsWith("/console"),
);
/** Text of a refusal because of the role, which appears as a page or above a form. */
const REFUSED = /Your role does not allow this|role in the organization does not allow/;

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

/** Makes the viewer's account an organization in which the viewer has this role. */
async function act(seen: Seen, role: MemberRole): Promise<void> {
  const { body } = await seen.client.get("/v1/auth/session");
  await api
    .db("accounts")
    .where({ account_id: String(body.account_id) })
    .update({ account_type: "organization", organization_name: "Engines", own_role: role });
}

const viewerOfPage = (page: Page) => viewerOf(api, visits[page.id]?.viewer ?? "nobody");

/** Returns whether the role table in the docs lets a role open a page. */
function mayOpen({ about, operations: [first] }: Page, role: MemberRole): boolean {
  const roles = first === undefined || about === "person" ? "person" : table.get(first);
  return roles === undefined || roles === "person" || roles.includes(role);
}

/** Returns the forms in a page's content, without those in the header. */
function formsOf({ text }: Shown): string[] {
  const main = text.slice(text.indexOf("<main"));
  return [...new Set([...main.matchAll(/name="form" value="([^"]+)"/g)].map(([, name = ""]) => name))];
}

function linksOf({ text }: Shown): string[] {
  const links = [...text.matchAll(/<a [^>]*href="(\/console[^"#]*)"/g)].map(([, href = ""]) =>
    unescaped(href),
  );
  return [...new Set(links)].filter((href) => !href.startsWith("/console/for/"));
}

describe.each(pages.map((page) => [page.id, page] as const))("page %s", (_, page) => {
  /** Roles and pages share a viewer as long as the tests only read pages. */
  let shared: Seen;
  beforeAll(async () => {
    shared = await readerOf(api, page.id);
  });

  test.each(memberRoles)("offers the role %s exactly what the role allows", async (role) => {
    await act(shared, role);
    const opened = await shared.open(pathOf(page.id, shared));
    expect([role, opened.status]).toEqual([role, mayOpen(page, role) ? 200 : 403]);
    if (!mayOpen(page, role)) {
      expect(opened.words).toContain(texts.errors.pages.forbidden?.title);
      return;
    }
    for (const link of linksOf(opened)) {
      expect([link, REFUSED.exec((await shared.open(link)).words)?.[0]]).toEqual([link, undefined]);
    }
    for (const form of "file" in page ? [] : formsOf(opened)) {
      const own = await viewerOfPage(page);
      await act(own, role);
      const sent = await (await own.open(pathOf(page.id, own))).send(form);
      expect([form, REFUSED.exec(sent.words)?.[0]]).toEqual([form, undefined]);
    }
  });
});
