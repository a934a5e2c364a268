import { describe, expect, test } from "vitest";
import {
  Html,
  html,
  inlineStyle,
  isOwnPath,
  type Piece,
  prose,
  renderDocument,
} from "../../src/html/html.ts";
import { HOSTILE_ADDRESSES, XSS_CORPUS } from "../support/xss_corpus.ts";

/** Matches the start of an element, but not escaped text. */
const MARKUP = /<[a-z!/]/gi;

describe("html templates", () => {
  test.each(XSS_CORPUS)("render a string as text: %j", (text) => {
    const page = String(
      html`<p title=${text} data-a="before ${text} after">${text}${[text, [text]]}<textarea>${text}</textarea><input value=${text} /></p>`,
    );
    expect(page.match(MARKUP)).toEqual(["<p", "<t", "</", "<i", "</"]);
    expect([...page.matchAll(/"[^"]*"/g)]).toHaveLength(3);
    expect(unescaped(page)).toContain(`value="${text}"`);
  });

  test.each(HOSTILE_ADDRESSES)(
    "omit a URL that runs a script or leads to a different site: %j",
    (address) => {
      for (const part of [
        html`<a href=${address}>a</a>`,
        html`<form action=${address}></form>`,
        html`<button formaction=${address}>a</button>`,
        html`<img src=${address} alt="" />`,
        html`<div hx-get=${address} hx-post=${address}></div>`,
      ]) {
        expect(String(part)).not.toMatch(/href|action|src|hx-|attacker|stolen/);
      }
      expect(isOwnPath(address)).toBe(false);
    },
  );

  test.each([
    "/console",
    "/console/requests/req-1?after=a%20b#top",
    "#content",
    "?after=2",
    "openapi.json",
    "./a",
    "../a",
  ])("keep a path of the same origin: %s", (address) => {
    expect(String(html`<a href=${address}>a</a>`)).toBe(`<a href="${address}">a</a>`);
    expect(String(html`<form action=${address}></form>`)).toBe(`<form action="${address}"></form>`);
  });

  test("allow links to other sites, but no attributes that load from or send data to other sites", () => {
    for (const address of ["https://shop.example/a?b=c", "http://127.0.0.1:8080/"]) {
      expect(String(html`<a href=${address}>a</a>`)).toContain(`href="${address}"`);
      expect(String(html`<form action=${address}></form>`)).toBe("<form></form>");
      expect(String(html`<img src=${address} alt="" />`)).not.toContain("src");
    }
    expect(String(html`<a href="mailto:help@example.com">a</a>`)).toContain("mailto:");
  });

  test.each([
    ["onclick", () => html`<p onclick="a()"></p>`],
    ["ONCLICK", () => html`<p ONCLICK="a()"></p>`],
    ["style", () => html`<p style="color: red"></p>`],
    ["srcdoc", () => html`<iframe srcdoc="a"></iframe>`],
    ["hx-on:click", () => html`<p hx-on:click="a()"></p>`],
    ["hx-vals", () => html`<p hx-vals="js:{a: 1}"></p>`],
    ["a broken name", () => html`<p ${'a="b"' as Piece}=${1}></p>`],
    ["markup created elsewhere", () => Html.of(Symbol("own markup") as never, "<b>")],
    ["content of a script", () => html`<script>a()</script>`],
    ["content of a style sheet", () => html`<style>a {}</style>`],
    ["an object as a value", () => html`<p title=${{ __html: "<b>" } as unknown as Piece}></p>`],
    ["an element name from a value", () => html`<${"script" as Piece}>a</>`],
    ["a style sheet that closes its own element", () => inlineStyle("</style><script>")],
  ])("refuse %s", (_, make) => {
    expect(() => String(make())).toThrow();
  });

  test("render nothing for JSON that looks like an element", () => {
    const forged = JSON.parse(`{"type": "script", "markup": "<script>", "html": "<b>"}`) as Piece;
    expect(String(html`<p>${forged}</p>`)).toBe("<p></p>");
  });

  test("join lists, omit absent values, and close open elements", () => {
    expect(String(html`<p>${undefined}${null}${false}${0}${["a", html`<b>c</b>`]}<br /></p><hr />`)).toBe(
      "<p>0a<b>c</b><br></p><hr>",
    );
    expect(String(html`plain ${"text"}`)).toBe("plain text");
    expect(String(prose("a `<b>` c\n\nd"))).toBe("<p>a <code>&#60;b&#62;</code> c</p><p>d</p>");
    expect(renderDocument(html`<html lang="en"></html>`)).toBe('<!doctype html>\n<html lang="en"></html>\n');
  });
});

function unescaped(text: string): string {
  return text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)));
}
