import { describe, expect, test } from "vitest";
import { startApi } from "../support/api.ts";
import { contract } from "./walk/documented.ts";

describe("the API reference page", () => {
  test("shows every operation, under a policy that allows only the page's own style", async () => {
    const api = await startApi();
    const answer = await fetch(`${api.url}/docs`);
    const text = await answer.text();
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    expect(answer.headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
    );
    expect(text).not.toMatch(
      /<script|\son\w+=|style="|https?:\/\/(?!127\.0\.0\.1|api\.example\.com|shop\.example\.com)/i,
    );
    for (const { operationId } of contract.operations) {
      expect(text).toContain(`<article id="${operationId}">`);
    }
    expect((await fetch(`${api.url}/docs`, { method: "POST" })).status).toBe(404);
    expect((await fetch(`${api.url}/docs/x`)).status).toBe(404);
    await api.stop();
  });
});

describe("GET /", () => {
  const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
  test("redirects a browser to the console, and returns 404 to other programs", async () => {
    const CONSOLE = "https://deputize.example/prefix/console";
    const api = await startApi({ config: { BASE_URL: "https://deputize.example/prefix" } });
    const ask = async (accept: string, path = "/", method = "GET") => {
      const answer = await fetch(`${api.url}${path}`, { method, headers: { accept }, redirect: "manual" });
      return [answer.status, answer.headers.get("location")];
    };
    expect(await ask(BROWSER)).toEqual([302, CONSOLE]);
    expect(await ask(BROWSER, "/", "HEAD")).toEqual([302, CONSOLE]);
    expect(await ask(BROWSER, "/?utm=1")).toEqual([302, CONSOLE]);
    expect(await ask("*/*")).toEqual([404, null]);
    expect(await ask("application/json")).toEqual([404, null]);
    expect(await ask(BROWSER, "/", "POST")).toEqual([404, null]);
    expect(await ask(BROWSER, "/other")).toEqual([404, null]);
    await api.stop();
  });
});
