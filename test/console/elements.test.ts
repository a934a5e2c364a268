import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { page } from "../../src/console/core/page.ts";
import { areaField, checkField, selectField } from "../../src/console/elements/fields.ts";
import { form } from "../../src/console/elements/form.ts";
import { filterForm, filtersOf, pager, table } from "../../src/console/elements/listing.ts";
import { shownOnce } from "../../src/console/elements/secrets.ts";
import { badge, copyable, facts, jsonBlock, withNames } from "../../src/console/elements/values.ts";
import { ApiError } from "../../src/errors.ts";
import { html } from "../../src/html/html.ts";
import type { TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { browserOf, formIn, startConsoleWith } from "./support/console.ts";

const HOSTILE = '"><script>1</script>';

const parts = page<{ items: string[] }>({
  id: "parts",
  path: "/console/parts",
  access: "onboarded",
  operations: ["get_credits"],
  load: async (visit) => ({
    items: Object.values(filtersOf(visit, ["agent", "state"])).filter(Boolean) as string[],
  }),
  title: () => "Parts",
  render: (visit, { items }) => html`${facts([["Known", HOSTILE], undefined, false, ["Also known", 0]])}
    ${badge(HOSTILE, "warn")}${copyable(visit.texts, { id: "a", text: HOSTILE })}${jsonBlock({ HOSTILE })}
    ${shownOnce(visit.texts, { id: "b", label: "Key", text: HOSTILE, file: "key.txt" })}
    ${filterForm(visit, { label: "Narrow down", content: undefined })}
    ${table({
      caption: "Items",
      columns: [
        { label: "Name", cell: (item) => item },
        { label: "Length", cell: (item) => item.length },
      ],
      items,
      empty: "There are none.",
    })}
    ${pager(visit, visit.query.cursor === "last" ? null : "c&d")}
    <p>${visit.may("get_credits") && "reads"} ${visit.may("approve_delegation_request") ? "approves" : "looks"}</p>
    ${form(visit, {
      name: "fields",
      content: html`${areaField(visit, { form: "fields", name: "note", label: "Note" })}
        ${checkField(visit, { form: "fields", name: "sure", label: "Sure" })}
        ${selectField(visit, {
          form: "fields",
          name: "kind",
          label: "Kind",
          value: "b",
          choices: [
            { value: "a", label: "A" },
            { value: "b", label: "B" },
          ],
        })}`,
      submit: "Send",
    })}`,
  forms: {
    fields: {
      submit: async (_visit, fields) => {
        const fault = fields.get("note") === "both" ? "; body.last_day: must be earlier" : "";
        throw new ApiError("invalid_request", `body.note: must be shorter${fault}`);
      },
    },
    gone: {
      submit: async () => {
        throw new ApiError("invalid_request", "body.last_day: must be earlier");
      },
    },
  },
});

const file = page<string>({
  id: "file",
  path: "/console/file",
  access: "onboarded",
  operations: [],
  load: async ({ query }) => query.name ?? "export.csv",
  file: (_visit, name) => ({ name, type: "text/csv; charset=utf-8", content: "a,<b>\n" }),
});

let api: TestApi;
beforeAll(async () => {
  api = await startConsoleWith([parts, file]);
});
afterAll(() => api.stop());

test("a text isolates each name in it, whatever characters the names contain", () => {
  const say = (agent: string, platform: string) => `${agent} of ${platform} asks`;
  expect(String(withNames(say, "bot", "Shop"))).toBe("<bdi>bot</bdi> of <bdi>Shop</bdi> asks");
  const strange = ["\ue001 <b>", "\ue000"];
  expect(String(withNames(say, strange[0] ?? "", strange[1] ?? ""))).toBe(
    "<bdi>\ue001 &#60;b&#62;</bdi> of <bdi>\ue000</bdi> asks",
  );
});

describe("the elements of pages", () => {
  test("escape text, and omit unknown values", async () => {
    const { text, words } = await browserOf(api, (await api.person()).client).open("/console/parts?agent=x");
    expect(text).not.toContain(HOSTILE);
    expect(text.match(/<dt>/g)).toHaveLength(2);
    expect(words).toContain("Also known 0");
    expect(words).not.toMatch(/undefined|false/);
  });

  test("keep the filters in the link to a list's next page, and drop the cursor in the link to the first page", async () => {
    const browser = browserOf(api, (await api.person()).client);
    const first = await browser.open("/console/parts?agent=x&state=&notice=denied");
    expect(first.text).toContain('href="/console/parts?agent=x&#38;state=&#38;cursor=c%26d"');
    expect(first.text).not.toContain("Back to the beginning");
    const last = await browser.open("/console/parts?agent=x&cursor=last");
    expect(last.text).toContain('href="/console/parts?agent=x"');
    expect(last.text).not.toContain("Show more");
    expect((await browser.open("/console/parts?state=")).words).toContain("There are none.");
    expect(first.text).toMatch(
      /<th scope="row" role="rowheader">x<\/th><td role="cell" data-label="Length">1</,
    );
  });

  test("keep everything entered, checked and selected in a refused form, including line breaks", async () => {
    const browser = browserOf(api, (await api.person()).client);
    const opened = await browser.open("/console/parts");
    expect(opened.text).toContain('<option value="b" selected>');
    const shown = await opened.send("fields", { note: "\nfirst\n<last>", sure: "on", kind: "a" });
    const { text, status } = shown;
    expect(status).toBe(400);
    expect(text).toContain(">\n\nfirst\n&#60;last&#62;</textarea>");
    expect(text).toMatch(/name="sure" value="on" checked/);
    expect(text).toContain('<option value="a" selected>');
    expect(text).toContain('<p class="fault" id="fields-note-fault">Must be shorter.</p>');
    expect(formIn(shown, "fields").fields.sure).toBe("on");
  });

  test("show above a refused form every error that none of its fields shows", async () => {
    const browser = browserOf(api, (await api.person()).client);
    const opened = await browser.open("/console/parts");
    const alertOf = (text: string) => /role="alert">([^<]*)</.exec(text)?.[1];
    const below = "Something is not right yet: see below.";
    expect(alertOf((await opened.send("fields", { note: "one" })).text)).toBe(below);
    const both = await opened.send("fields", { note: "both" });
    expect(alertOf(both.text)).toBe(`Must be earlier. ${below}`);
    expect(alertOf((await opened.send("fields", { form: "gone" })).text)).toBe("Must be earlier.");
  });

  test("send a file as a download that browsers do not display", async () => {
    const browser = browserOf(api, (await api.person()).client);
    const { headers, text } = await browser.open("/console/file");
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(headers.get("content-disposition")).toBe('attachment; filename="export.csv"');
    expect(headers.get("content-security-policy")).toContain("sandbox");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(text).toBe("a,<b>\n");
    expect((await browser.open(`/console/file?name=${encodeURIComponent('a";x=.html')}`)).status).toBe(500);
  });
});

test("pages do not offer what a role may not do", async () => {
  const { accountId, client } = await api.person();
  const path = `/console/for/${accountId}/parts`;
  const said = async (as: typeof client) => (await browserOf(api, as).open(path)).words;
  expect(await said(client)).toContain("reads approves");
  expect(await said((await addMember(api, accountId, "approver")).client)).toContain("reads approves");
  expect(await said((await addMember(api, accountId, "auditor")).client)).toContain("reads looks");
});
