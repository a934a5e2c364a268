import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asyncApiDocument } from "../../../src/http/asyncapi/asyncapi.ts";
import { npmPackages, ran, type Tool } from "../../support/outside_tools.ts";

const PROGRAM = `
import { Parser } from "@asyncapi/parser";
import { readFileSync } from "node:fs";
const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify({
  problems: diagnostics.map(({ code, path, severity }) => [severity, code, path.join(".")]),
  version: document?.version(),
  messages: document?.allMessages().all().map((message) => message.id()).sort(),
  addresses: document?.allChannels().all().map((channel) => channel.address()),
}));
`;

let folder: string;
let parser: Tool;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deputize-asyncapi-"));
  parser = await npmPackages("asyncapi-parser-1", ["@asyncapi/parser@3.6.6"]);
}, 600_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("AsyncAPI's own parser", () => {
  type Read = { problems: unknown[][]; version?: string; messages?: string[]; addresses?: unknown[] };

  async function read(document: object, skip: (why: string) => never): Promise<Read> {
    if (parser.missing !== undefined) {
      console.warn(`SKIPPED: ${parser.missing}`);
      return skip(parser.missing);
    }
    const program = join(parser.folder, "read.mjs");
    await writeFile(program, PROGRAM);
    const file = join(folder, "asyncapi.json");
    await writeFile(file, JSON.stringify(document));
    const { code, printed, said } = await ran(process.execPath, [program, file]);
    if (code !== 0) throw new Error(said);
    return JSON.parse(printed);
  }

  test("accepts the document, with its channels and messages", async ({ skip }) => {
    const document = asyncApiDocument({ word: "service", version: "1.2.3" });
    const { problems, version, messages, addresses } = await read(document, skip);
    expect(problems).toEqual(MEANT);
    expect(version).toBe("3.0.0");
    const { components } = document as { components: { messages: object } };
    expect(messages).toEqual(Object.keys(components.messages).sort());
    expect(addresses).toEqual([
      "{prefix}deputize.lifecycle.v1",
      "{prefix}deputize.audit.v1",
      "{prefix}deputize.dlq.v1",
      null,
    ]);
  });

  test("refuses an invalid document", async ({ skip }) => {
    const document = asyncApiDocument({ word: "service", version: "1.2.3" });
    const { problems } = await read({ ...document, operations: { a: { action: "read" } } }, skip);
    expect(problems.filter(([severity]) => severity === 0)).not.toEqual([]);
  });
});

/** The only expected message of the parser: that a version newer than 3.0 exists. */
const MEANT = [[2, "asyncapi-latest-version", "asyncapi"]];
