import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { askForCode, type Person } from "../../../../src/dev/tour/person.ts";

const jane = { email: "jane@example.test" } as Person;

function ask(signal = new AbortController().signal) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  let begun = 0;
  const code = askForCode({ input, output }, signal, () => {
    begun += 1;
  })(jane);
  return { input, output, code, begun: () => begun };
}

test("the code that was mailed is asked for by address, and taken without the space around it", async () => {
  const { input, output, code, begun } = ask();
  input.write(" 123456 \n");
  expect(await code).toBe("123456");
  expect(begun()).toBe(1);
  output.end();
  expect(await text(output)).toBe("The code that was mailed to jane@example.test: ");
});

test.each(["\n", ""])("an input that ends with %j is no code", async (typed) => {
  const { input, code } = ask();
  input.end(typed);
  await expect(code).rejects.toThrow("No code was entered");
});

test("an interruption ends the question", async () => {
  const over = new AbortController();
  const { code } = ask(over.signal);
  over.abort();
  await expect(code).rejects.toThrow();
});
