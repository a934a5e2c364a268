import { describe, expect, test } from "vitest";
import { duration, labelled, relative, table, visible, wrapped } from "../../src/plugin/text.ts";

const NOW = new Date("2026-06-01T12:00:00Z");

describe("the plugin's output", () => {
  test.each([
    ["shop", "shop"],
    ["Zoë's 店", "Zoë's 店"],
    ["a\u202eb", "a\\u{202e}b"],
    ["a\u200bb", "a\\u{200b}b"],
    ["a\u001b[2Jb", "a\\u{1b}[2Jb"],
    ["a\nb", "a\\u{a}b"],
    ["a\u{e0041}b", "a\\u{e0041}b"],
  ])("prints %j as %s", (text, shown) => {
    expect(visible(text)).toBe(shown);
  });

  test.each([
    [0, "0s"],
    [119_000, "119s"],
    [120_000, "2m"],
    [7_199_000, "119m"],
    [7_200_000, "2h"],
    [172_800_000, "2d"],
    [-5, "0s"],
  ])("formats %i ms as %s", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  test("formats a time relative to now, and prints nothing if there is no time", () => {
    expect(relative("2026-06-04T12:00:00Z", NOW)).toBe("in 3d");
    expect(relative("2026-06-01T07:00:00Z", NOW)).toBe("5h ago");
    expect(relative(undefined, NOW)).toBe("");
    expect(relative("soon", NOW)).toBe("");
  });

  const rows = [
    { name: "bot", reason: "Active", granted: "data:read" },
    { name: "a-much-longer-name", reason: "AwaitingApproval", granted: "" },
  ];
  const columns = [
    { heading: "NAME", of: ({ name }: (typeof rows)[number]) => name },
    { heading: "REASON", of: ({ reason }: (typeof rows)[number]) => reason, dropsAt: 2 },
    { heading: "GRANTED", of: ({ granted }: (typeof rows)[number]) => granted, dropsAt: 1 },
  ];
  test("drops the columns with the highest `dropsAt` until a table fits, then cuts lines", () => {
    expect(table(rows, columns, 80)).toBe(
      [
        "NAME                 REASON             GRANTED",
        "bot                  Active             data:read",
        "a-much-longer-name   AwaitingApproval",
        "",
      ].join("\n"),
    );
    expect(table(rows, columns, 48).split("\n")[0]).toBe("NAME                 GRANTED");
    expect(table(rows, columns, 20).split("\n")).toEqual(["NAME", "bot", "a-much-longer-name", ""]);
    expect(table(rows, columns, 10).split("\n")[2]).toBe("a-much-lo…");
  });

  test("wraps words, and does not break a long word", () => {
    expect(wrapped("one two three", 7)).toBe("one two\nthree");
    expect(wrapped("a https://console.example.test/x b", 10)).toBe("a\nhttps://console.example.test/x\nb");
  });

  test("aligns texts in a column next to their labels", () => {
    const long = `${"word ".repeat(12)}end`;
    const lines = [["Asked", "data:read"] as const, ["Says", long] as const];
    expect(labelled(lines, 60, "  ").split("\n")).toEqual([
      "  Asked   data:read",
      `  Says    ${"word ".repeat(10).trim()}`,
      "          word word end",
    ]);
  });
});
