import { expect, test } from "vitest";
import { drawTable, foldLines, pad } from "../../../keyvault/commands/display.ts";

const fold = (text: string, columns: number) => foldLines([["name", text]], 6, columns);

test("a text that fits stays on its line, and one character more goes on beneath, between words", () => {
  expect(fold("one two", 14)).toBe("name   one two\n");
  expect(fold("one two", 13)).toBe("name   one\n       two\n");
  expect(fold("", 80)).toBe("name\n");
});

test("a word that no line of the text holds is whole on a line of its own", () => {
  const code = "x".repeat(12);
  expect(fold(code, 15)).toBe(`name\n  ${code}\n`);
  expect(fold(`at ${code} end`, 15)).toBe(`name   at\n  ${code}\n       end\n`);
});

test("a name that is too long has a line of its own", () => {
  expect(foldLines([["a long name", "text"]], 6, 80)).toBe("a long name\n       text\n");
});

test("a cell is as wide on the terminal as its column, whatever script it is in", () => {
  expect(pad("abc", 5)).toBe("abc  ");
  expect(pad("abcdef", 5)).toBe("abcd…");
  expect(pad("鍵の名前", 8)).toBe("鍵の名前");
  expect(pad("鍵の名前", 7)).toBe("鍵の名…");
  expect(pad("鍵の名前", 6)).toBe("鍵の… ");
  expect(pad("👩‍💻👩‍💻", 3)).toBe("👩‍💻…");
});

test("only columns that may shrink are cut, and never below their least", () => {
  const head = [{ heading: "KEY" }, { heading: "LABEL", shrinks: true as const }];
  const rows = [["0123456789", "a label that is long"]];
  expect(drawTable(head, rows, 24)).toBe("KEY         LABEL\n0123456789  a label tha…\n");
  expect(drawTable(head, rows, 4).split("\n")[1]).toBe("0123456789  a label…");
});
