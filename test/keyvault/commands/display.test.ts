import { expect, test } from "vitest";
import { drawTable, foldLines, pad } from "../../../keyvault/commands/display.ts";

const fold = (text: string, columns: number) => foldLines([["name", text]], 6, columns);

test("foldLines wraps a text between words, and only if the text does not fit on one line", () => {
  expect(fold("one two", 14)).toBe("name   one two\n");
  expect(fold("one two", 13)).toBe("name   one\n       two\n");
  expect(fold("", 80)).toBe("name\n");
});

test("foldLines puts a word longer than a line on a line of its own", () => {
  const code = "x".repeat(12);
  expect(fold(code, 15)).toBe(`name\n  ${code}\n`);
  expect(fold(`at ${code} end`, 15)).toBe(`name   at\n  ${code}\n       end\n`);
});

test("foldLines puts an overlong name on a line of its own", () => {
  expect(foldLines([["a long name", "text"]], 6, 80)).toBe("a long name\n       text\n");
});

test("pad makes a cell as wide on the terminal as its column, in any script", () => {
  expect(pad("abc", 5)).toBe("abc  ");
  expect(pad("abcdef", 5)).toBe("abcd…");
  expect(pad("鍵の名前", 8)).toBe("鍵の名前");
  expect(pad("鍵の名前", 7)).toBe("鍵の名…");
  expect(pad("鍵の名前", 6)).toBe("鍵の… ");
  expect(pad("👩‍💻👩‍💻", 3)).toBe("👩‍💻…");
});

test("drawTable shortens only the columns marked as shrinkable, down to a minimum width", () => {
  const head = [{ heading: "KEY" }, { heading: "LABEL", shrinks: true as const }];
  const rows = [["0123456789", "a label that is long"]];
  expect(drawTable(head, rows, 24)).toBe("KEY         LABEL\n0123456789  a label tha…\n");
  expect(drawTable(head, rows, 4).split("\n")[1]).toBe("0123456789  a label…");
});
