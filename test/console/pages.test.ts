import { glob } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Page, page } from "../../src/console/core/page.ts";
import { consolePages } from "../../src/console/pages.ts";
import { html } from "../../src/html/html.ts";
import { contract } from "../http/walk/documented.ts";
import type { TestApi } from "../support/api.ts";
import { browserOf, startConsoleWith } from "./support/console.ts";
import { pathOf, readerOf, type Seen, viewerOf, visits } from "./support/visits.ts";

const liar = page({
  id: "liar",
  path: "/console/liar",
  access: "onboarded",
  operations: [],
  load: (visit) => visit.call("get_credits"),
  title: () => "liar",
  render: () => html`<p>never</p>`,
});

/** These pages belong to no page in the navigation. */
const APART = [
  "stop_mails",
  "appearance",
  "account",
  "account_name",
  "account_address",
  "delete_account",
  "undo_address",
  "accept_invitation",
  "sign_out",
  "connect",
  "connect_refused",
  "welcome_name",
  "welcome_account",
];
function isBelowAnother(page: Page): boolean {
  return (
    !("file" in page) &&
    page.path.startsWith("/console/") &&
    page.navigation === undefined &&
    !APART.includes(page.id)
  );
}

let api: TestApi;
/** A person without complete onboarding. */
let typeless: Seen;
beforeAll(async () => {
  api = await startConsoleWith([liar]);
  typeless = await viewerOf(api, "typeless");
});
afterAll(() => api.stop());

/** Maximum bytes of a page's first visit. The API does not compress its own responses. */
const MOST_BYTES = 60_000;
const packed = new Map<string, Promise<number>>();

/** Returns the transferred bytes of a page's files. Includes `htmx` only if the page uses it. */
async function loadedBytes(text: string): Promise<number> {
  const files = [...text.matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g)].map(([, path = ""]) => path);
  const htmx = / hx-get=/.test(text) ? /data-htmx="([^"]+)"/.exec(text)?.[1] : undefined;
  const sizes = [...files, ...(htmx === undefined ? [] : [htmx])].map((path) => {
    const size = packed.get(path) ?? packedBytes(path);
    packed.set(path, size);
    return size;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Returns a file's transferred bytes by the length header, since `fetch` decompresses the response. */
async function packedBytes(path: string): Promise<number> {
  const answer = await fetch(`${api.url}${path}`, { headers: { "accept-encoding": "br" } });
  await answer.arrayBuffer();
  return Number(answer.headers.get("content-length"));
}

describe("every console page", () => {
  test("has a test visit, a unique name and a unique path", () => {
    expect(consolePages.map(({ id }) => id).sort()).toEqual(Object.keys(visits).sort());
    expect(new Set(consolePages.map(({ path }) => path)).size).toBe(consolePages.length);
  });

  test("appears in the list of pages if a source file declares it", async () => {
    const folder = join(import.meta.dirname, "../../src/console/pages");
    const listed = new Set<unknown>(consolePages);
    const left: string[] = [];
    for await (const file of glob("**/*.ts", { cwd: folder })) {
      const declared = Object.entries((await import(join(folder, file))) as object);
      for (const [name, value] of declared) {
        if (name.endsWith("Page") && !listed.has(value)) left.push(`${file}: ${name}`);
      }
    }
    expect(left, "add them to src/console/pages.ts").toEqual([]);
  });

  test("calls only documented operations", () => {
    const known = contract.operations.map(({ operationId }) => operationId);
    for (const { operations } of consolePages) expect(known).toEqual(expect.arrayContaining([...operations]));
  });

  test.each(consolePages.filter((each) => !("file" in each)))(
    "$id contains no inline script, and cannot be cached or framed",
    async ({ id }) => {
      const browser = await readerOf(api, id);
      const path = pathOf(id, browser);
      const shown = await browser.open(path);
      expect([shown.status, shown.path]).toEqual([200, path]);
      const header = (name: string) => shown.headers.get(name);
      expect(header("content-type")).toBe("text/html; charset=utf-8");
      expect(header("cache-control")).toBe("no-store");
      expect(header("referrer-policy")).toBe("same-origin");
      expect(header("cross-origin-opener-policy")).toBe("same-origin");
      expect(header("x-content-type-options")).toBe("nosniff");
      // One page leads to another origin, whose own test names it.
      const policy = header("content-security-policy")?.replace(/(?<=form-action 'self') https:[^;]*/, "");
      expect(policy).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
      expect(shown.text).not.toMatch(
        /<script(?! src="\/console\/assets\/)|<style| style=| on\w+="|(?:src|action|get|post)="(?:https?:)?\/\//i,
      );
      // The same page links back to that origin.
      const text =
        id === "connect" ? shown.text.replace(/<a class="button quiet" href="https:/, "") : shown.text;
      expect(text).not.toMatch(/href="(?:https?:)?\/\/(?!www\.openstreetmap\.org\/[^>]* rel="noreferrer">)/i);
      expect(shown.text.match(/<h1>/g)).toHaveLength(1);
      expect(shown.text).not.toContain("undefined");
      const tokens = [...shown.text.matchAll(/<form [^>]*method="post"(.*?)<\/form>/gs)].map(
        ([form]) => form,
      );
      for (const form of tokens) expect(form).toMatch(/name="csrf" value="[A-Za-z0-9_-]{43}"/);
      const first = await browser.client.get(path, { headers: { "sec-fetch-site": "none" } });
      const weight = Buffer.byteLength(first.text) + (await loadedBytes(first.text));
      expect([id, weight, weight < MOST_BYTES]).toEqual([id, weight, true]);
    },
  );

  test.each(consolePages.filter(isBelowAnother))(
    "$id is marked in the navigation, and links back to its parent page",
    async ({ id }) => {
      const browser = await readerOf(api, id);
      const { text } = await browser.open(pathOf(id, browser));
      const marked = text.match(/aria-current="true">/g) ?? [];
      expect(marked, `no entry of the navigation has ${id} below its path or in its "also"`).toHaveLength(1);
      expect(text).toMatch(/<p class="back"><a href="|<nav aria-label="Parts of this connection">/);
    },
  );

  test.each(consolePages.filter(({ access }) => access !== "public"))(
    "$id requires a session",
    async ({ id, path }) => {
      const shown = await browserOf(api).open(path.replaceAll(/\{\w+\}/g, "1"));
      expect([id, shown.path.split("?")[0]]).toEqual([id, "/v1/auth/email/console"]);
    },
  );

  test.each(consolePages.filter(({ access }) => access === "onboarded"))(
    "$id requires complete onboarding",
    async ({ path }) => {
      const shown = await typeless.open(path.replaceAll(/\{\w+\}/g, "1"));
      expect(shown.path.split("?")[0]).toBe("/console/welcome/account");
    },
  );
});

describe("the console", () => {
  test("refuses a page's call of an undeclared operation, and does not show the reason", async () => {
    const shown = await (await viewerOf(api, "complete")).open("/console/liar");
    expect(shown.status).toBe(500);
    expect(shown.words).toContain("Something went wrong on our side");
    expect(shown.words).not.toContain("get_credits");
    expect(api.lines.filter((line) => line.includes('"route":"console"'))).not.toEqual([]);
  });

  test("has a page for unknown URLs", async () => {
    for (const path of [
      "/console/nothing",
      "/console/for/8220ed9d-87bc-4639-b25f-c0609a1bc8d1/nothing",
      "/console/%ff",
    ]) {
      const shown = await browserOf(api).open(path);
      expect([shown.status, shown.headers.get("cache-control")]).toEqual([404, "no-store"]);
      expect(shown.words).toContain("There is no such page");
    }
    const { client, email } = await api.person();
    const known = await browserOf(api, client).open("/console/requests/nothing");
    expect([known.status, known.words.includes(`Signed in as ${email}`)]).toEqual([404, true]);
    const repeated = await browserOf(api).open("/console?a=1&a=2");
    expect(repeated.status).toBe(400);
  });

  test("counts requests for its pages and calls to operations in the metrics", async () => {
    await (await viewerOf(api, "complete")).open("/console");
    const text = await api.metrics.registry.metrics();
    expect(text).toMatch(/route="console",status="200"/);
    expect(text).toMatch(/route="get_credits",status="200"/);
  });

  test("sends its files compressed and cacheable forever, and finds no file under a different hash", async () => {
    const { text } = await browserOf(api).open("/v1/auth/email/console");
    const files = [...text.matchAll(/(?:href|src|data-htmx)="(\/console\/assets\/[^"]+)"/g)].map(
      ([, path = ""]) => path,
    );
    expect(files.map((path) => path.split(".").at(-1)).sort()).toEqual(["css", "js", "js", "svg"]);
    for (const path of files) {
      const answer = await fetch(`${api.url}${path}`, { headers: { "accept-encoding": "br" } });
      expect([
        answer.status,
        answer.headers.get("cache-control"),
        answer.headers.get("content-encoding"),
      ]).toEqual([200, "public, max-age=31536000, immutable", "br"]);
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(0);
      const plain = await fetch(`${api.url}${path}`, { headers: { "accept-encoding": "identity" } });
      expect(plain.headers.get("content-encoding")).toBeNull();
      expect((await fetch(`${api.url}${path.replace(/-[^.]+/, "-x")}`)).status).toBe(404);
    }
  });
});

test("people get a readable error page even if the session cannot be read", async () => {
  const browser = await viewerOf(api, visits.home?.viewer ?? "nobody");
  await api.db.raw("alter table sessions rename to sessions_away");
  try {
    const shown = await browser.open("/console");
    expect(shown.status).toBe(500);
    expect(shown.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(shown.text).toContain("<h1>");
  } finally {
    await api.db.raw("alter table sessions_away rename to sessions");
  }
});
