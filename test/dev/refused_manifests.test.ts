import { afterEach, beforeEach, expect, test } from "vitest";
import { reportRefused } from "../../src/dev/refused_manifests.ts";
import type { Resources } from "../../src/operator/resources.ts";
import { type TestFolders, testFolders } from "../operator/folder/folders.ts";
import { agent, platform } from "../operator/schema/cases/manifests.ts";
import { until } from "../support/process.ts";

let folders: TestFolders;
let operator: Resources;
let said: string[];
let stop: () => void;

beforeEach(async () => {
  folders = await testFolders();
  said = [];
});

afterEach(async () => {
  stop();
  await operator.stop();
  await folders.dispose();
});

async function open(): Promise<void> {
  operator = await folders.open();
  await operator.start();
  const note = (text = "") => void said.push(text);
  stop = reportRefused(folders.status, { warn: note, line: note });
}

const shows = (count: number) => until(`${count} lines`, () => said.length >= count);

test("reports a document that is already refused, and each further one when it is refused", async () => {
  await folders.write("shop.yaml", platform({ displayNam: "Shop" }));
  await open();
  await shows(1);
  await folders.write("bot.yaml", { ...agent(), metadata: { name: "bot" }, spec: {} });
  await shows(2);
  expect(said).toEqual([
    expect.stringMatching(
      /^Refused: shop\.yaml \(document 1\), Platform\/default\/example: .*spec\.displayNam: unknown field/,
    ),
    expect.stringMatching(/^Refused: bot\.yaml \(document 1\), Agent\/default\/bot: .*is required/),
  ]);
});

test("reports a new reason, and when everything is accepted again", async () => {
  await open();
  await folders.write("shop.yaml", "kind: {");
  await shows(1);
  await folders.write("shop.yaml", platform({ surfaceType: "paper" }));
  await shows(2);
  await folders.write("shop.yaml", platform());
  await shows(3);
  expect(said.map((line) => line.split(":")[0])).toEqual([
    "Refused",
    "Refused",
    "All documents of the folder are accepted again",
  ]);
});

test("escapes what could control the terminal", async () => {
  await folders.write("a.yaml", 'apiVersion: v1\nkind: "\\e[2J"\nmetadata: {name: a}\n');
  await open();
  await shows(1);
  expect(said[0]).toMatch(/^Refused: a\.yaml \(document 1\): v1 \\u001b\[2J is not a kind/);
});
