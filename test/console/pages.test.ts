import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { page } from "../../src/console/core/page.ts";
import { consolePages } from "../../src/console/pages.ts";
import { html } from "../../src/html/html.ts";
import { contract } from "../http/walk/documented.ts";
import type { PlatformApi } from "../support/platform_world.ts";
import { browserOf, startConsole } from "./support/console.ts";
import { pathOf, viewerOf, visits } from "./support/visits.ts";

const liar = page({
  id: "liar",
  path: "/console/liar",
  access: "onboarded",
  operations: [],
  load: (visit) => visit.call("get_credits"),
  title: () => "liar",
  render: () => html`<p>never</p>`,
});

let api: PlatformApi;
beforeAll(async () => {
  api = await startConsole({ consolePages: [liar] });
});
afterAll(() => api.stop());

describe("every page", () => {
  test("is visited by these tests, under one name and one path", () => {
    expect(consolePages.map(({ id }) => id).sort()).toEqual(Object.keys(visits).sort());
    expect(new Set(consolePages.map(({ path }) => path)).size).toBe(consolePages.length);
  });

  test("calls operations that are documented", () => {
    const known = contract.operations.map(({ operationId }) => operationId);
    for (const { operations } of consolePages) expect(known).toEqual(expect.arrayContaining([...operations]));
  });

  test.each(consolePages)(
    "$id runs nothing of its own, is kept nowhere and framed nowhere",
    async ({ id }) => {
      const browser = await viewerOf(api, visits[id]?.viewer ?? "nobody");
      const path = pathOf(id, browser);
      const shown = await browser.open(path);
      expect([shown.status, shown.path]).toEqual([200, path]);
      const header = (name: string) => shown.headers.get(name);
      expect(header("content-type")).toBe("text/html; charset=utf-8");
      expect(header("cache-control")).toBe("no-store");
      expect(header("referrer-policy")).toBe("same-origin");
      expect(header("cross-origin-opener-policy")).toBe("same-origin");
      expect(header("x-content-type-options")).toBe("nosniff");
      expect(header("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
      expect(shown.text).not.toMatch(
        /<script(?! src="\/console\/assets\/)|<style| style=| on\w+="|https?:\/\//i,
      );
      expect(shown.text.match(/<h1>/g)).toHaveLength(1);
      expect(shown.text).not.toContain("undefined");
      const tokens = [...shown.text.matchAll(/<form [^>]*method="post"(.*?)<\/form>/gs)].map(
        ([form]) => form,
      );
      for (const form of tokens) expect(form).toMatch(/name="csrf" value="[A-Za-z0-9_-]{43}"/);
    },
  );

  test.each(consolePages.filter(({ access }) => access !== "public"))(
    "$id is for people who are signed in",
    async ({ id, path }) => {
      const shown = await browserOf(api).open(path.replaceAll(/\{\w+\}/g, "1"));
      expect([id, shown.path.split("?")[0]]).toEqual([id, "/v1/auth/email/console"]);
    },
  );

  test.each(consolePages.filter(({ access }) => access === "onboarded"))(
    "$id waits for the end of onboarding",
    async ({ path }) => {
      const browser = await viewerOf(api, "typeless");
      expect((await browser.open(path.replaceAll(/\{\w+\}/g, "1"))).path).toBe("/console/welcome/account");
    },
  );
});

describe("the console", () => {
  test("refuses a page a call that it does not declare, and says nothing of why", async () => {
    const shown = await (await viewerOf(api, "complete")).open("/console/liar");
    expect(shown.status).toBe(500);
    expect(shown.words).toContain("Something went wrong on our side");
    expect(shown.words).not.toContain("get_credits");
    expect(api.lines.filter((line) => line.includes('"route":"console"'))).not.toEqual([]);
  });

  test("has a page for what is not there", async () => {
    for (const path of [
      "/console/nothing",
      "/console/for/8220ed9d-87bc-4639-b25f-c0609a1bc8d1/nothing",
      "/console/%ff",
    ]) {
      const shown = await browserOf(api).open(path);
      expect([shown.status, shown.headers.get("cache-control")]).toEqual([404, "no-store"]);
      expect(shown.words).toContain("There is no such page");
    }
    const repeated = await browserOf(api).open("/console?a=1&a=2");
    expect(repeated.status).toBe(400);
  });

  test("counts its pages and the operations that they call", async () => {
    await (await viewerOf(api, "complete")).open("/console");
    const text = await api.metrics.registry.metrics();
    expect(text).toMatch(/route="console",status="200"/);
    expect(text).toMatch(/route="get_credits",status="200"/);
  });

  test("gives what pages load to be kept for ever, packed, and no other version of it", async () => {
    const { text } = await browserOf(api).open("/v1/auth/email/console");
    const files = [...text.matchAll(/(?:href|src)="(\/console\/assets\/[^"]+)"/g)].map(
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

test("when not even the session can be read, people get a page that says so, and no JSON", async () => {
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
