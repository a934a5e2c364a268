import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { linesOf } from "../../../src/sdk/proxy/lines.ts";
import { MAX_MESSAGE_BYTES, readClientMessage, readServerMessage } from "../../../src/sdk/proxy/messages.ts";

const call = (more = "") =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"a":5}}${more}}`;

describe("the reader of a client's messages", () => {
  test.each<[string, string, string]>([
    ["an array of the old era, which could hide a call", `[${call()}]`, "batch"],
    ["a method beside another one: attack 6", call(',"Method":"ping"'), "not_a_message"],
    ["two methods: attack 6", call(',"method":"ping"'), "not_strict_json"],
    ["two names: attack 6", call().replace('"name"', '"name":"health","name"'), "not_strict_json"],
    ["a lone surrogate: attack 6", call().replace("pay", "\\ud800"), "not_strict_json"],
    ["NaN: attack 6", call().replace("5", "NaN"), "not_strict_json"],
    [
      "a whole number that parsers round: attack 7",
      call().replace("5", "9007199254740993"),
      "not_strict_json",
    ],
    ["a request that is a response too", call(',"result":{}'), "not_a_message"],
    ["parameters in a list", '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', "not_a_message"],
    ["an id that is an object", '{"jsonrpc":"2.0","id":{},"method":"ping"}', "not_a_message"],
    ["another version of JSON-RPC", '{"jsonrpc":"1.0","id":1,"method":"ping"}', "not_a_message"],
    ["text that is no JSON", "ping", "not_strict_json"],
  ])("refuses %s", (_, text, fault) => {
    expect(readClientMessage(Buffer.from(text))).toBe(fault);
  });

  test("keeps all members of the parameters", () => {
    const params = { name: "pay", arguments: { a: [1, null, { b: 1.5 }] }, _meta: { "x/y": {} } };
    const message = { jsonrpc: "2.0", id: "a", method: "tools/call", params };
    expect(readClientMessage(Buffer.from(JSON.stringify(message)))).toEqual(message);
  });

  test("refuses a message that is too large", () => {
    expect(readClientMessage(Buffer.alloc(MAX_MESSAGE_BYTES + 1, 32))).toBe("too_large");
  });
});

describe("the reader of a server's messages", () => {
  test("passes numbers on that JSON.parse would change", () => {
    const text = '{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890}}';
    expect(readServerMessage(Buffer.from(text))).toMatchObject({ text });
    const twice = '{"jsonrpc":"2.0","id":1,"id":2,"result":{"n":12345678901234567890}}';
    expect(readServerMessage(Buffer.from(twice))).toMatchObject({ text: expect.stringMatching('"id":2,') });
  });

  test("refuses an array, and text that is no message", () => {
    expect(readServerMessage(Buffer.from("[]"))).toBe("batch");
    expect(readServerMessage(Buffer.from("Server started"))).toBe("not_strict_json");
    expect(readServerMessage(Buffer.from("{}"))).toBe("not_a_message");
  });
});

test("the lines of a stream end where the stream says, and one that is too long keeps no bytes", async () => {
  const stream = new PassThrough();
  const lines: string[] = [];
  const read = (async () => {
    for await (const line of linesOf(stream)) lines.push(line.toString());
  })();
  for (const part of ["a", "b\n\r\nc\n", "x".repeat(MAX_MESSAGE_BYTES), "x\nd"]) stream.write(part);
  stream.end();
  await read;
  expect(lines).toEqual(["ab", "c", "too_large", "d"]);
});
