import { expect, test } from "vitest";
import { showExcerpt } from "../../src/deliveries/delivery_view.ts";

const shown = (text: string) => showExcerpt(Buffer.from(text));

test("showExcerpt keeps visible text, line breaks and tabs", () => {
  const text = '{"why": "Zoë sagt nein"}\n\t<p>नमस्ते 日本 😀</p>';
  expect(shown(text)).toBe(text);
  expect(shown("one\r\ntwo")).toBe("one\ntwo");
  expect(shown("")).toBe("");
});

test.each([
  ["a terminal escape sequence", "\u001b[2Ka", "\ufffd[2Ka"],
  ["a null byte", "a\u0000b", "a\ufffdb"],
  ["a lone carriage return", "good\rbad", "good\ufffdbad"],
  ["an eight-bit control character", "a\u009b2K", "a\ufffd2K"],
  ["a change of text direction", "a\u202eb", "a\ufffdb"],
  ["an invisible character", "a\u200bb", "a\ufffdb"],
  ["an invisible filler character", "a\u115fb", "a\ufffdb"],
  ["a Unicode line separator", "a\u2028b", "a\ufffdb"],
  ["a private-use character", "a\ue000b", "a\ufffdb"],
  ["each of several characters", "\u0007\u0007\u200b\u200b", "\ufffd\ufffd\ufffd\ufffd"],
])("showExcerpt replaces %s", (_, text, expected) => {
  expect(shown(text)).toBe(expected);
});

test("showExcerpt replaces invalid UTF-8, such as a truncated character", () => {
  expect(showExcerpt(Buffer.from("a\u00e9").subarray(0, 2))).toBe("a\ufffd");
  expect(showExcerpt(Buffer.of(0xff, 0x61))).toBe("\ufffda");
});
