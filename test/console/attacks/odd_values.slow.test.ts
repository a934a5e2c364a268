import { afterAll, beforeAll, expect, test } from "vitest";
import { consolePages } from "../../../src/console/pages.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { type Shown, unescaped } from "../support/console.ts";
import { pathOf, viewerOf, visits } from "../support/visits.ts";

const ODD = [
  " ",
  "x".repeat(10_000),
  "-1",
  "999999999999999999999",
  "1e400",
  "1,000",
  "a\u202eb",
  "2026-02-30",
];
/** Words of validators and of the API that are meant for programs. */
const RAW =
  /Too (?:small|big)|expected|Invalid (?:input|option)|\bbody\b|invalid_|canonical|\b[a-z]+_[a-z_]+\b|idempotency|nothing was decided|\u202e/i;

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

function typedFields({ text }: Shown): [string, string][] {
  return [...text.matchAll(/<form [^>]*method="post"[^>]*>(.*?)<\/form>/gs)].flatMap(([, content = ""]) => {
    const form = /name="form" value="([^"]*)"/.exec(content)?.[1] ?? "";
    const controls = [...content.matchAll(/<(?:input|textarea|select) [^>]*>/g)].map(([tag]) => tag);
    const names = controls
      .filter((tag) => !/type="(?:hidden|checkbox|radio)"/.test(tag))
      .map((tag) => / name="([^"]*)"/.exec(tag)?.[1] ?? "");
    return [...new Set(names)].map((name): [string, string] => [form, name]);
  });
}

function saidOf({ text }: Shown): string[] {
  return [...text.matchAll(/<p class="(?:fault|refusal)"[^>]*>(.*?)<\/p>/gs)].map(([, said = ""]) =>
    unescaped(said),
  );
}

test.each(consolePages.filter((page) => "forms" in page).map(({ id }) => id))(
  "page %s shows errors in plain words, whatever is entered",
  async (id) => {
    await api.db("rate_limits").delete();
    const seen = await viewerOf(api, visits[id]?.viewer ?? "nobody");
    const page = await seen.open(pathOf(id, seen));
    for (const [form, name] of typedFields(page)) {
      for (const value of ODD) {
        await api.db("rate_limits").delete();
        const answer = await page.send(form, { [name]: value, key: crypto.randomUUID() });
        const raw = saidOf(answer).filter((said) => RAW.test(said.replaceAll(/"[^"]*"/g, "")));
        expect([form, name, value.slice(0, 30), answer.status < 500, raw]).toEqual([
          ...[form, name, value.slice(0, 30), true, []],
        ]);
      }
    }
  },
  60_000,
);
