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

test("askForCode prompts with the email address and trims the answer", async () => {
  const { input, output, code, begun } = ask();
  input.write(" 123456 \n");
  expect(await code).toBe("123456");
  expect(begun()).toBe(1);
  output.end();
  expect(await text(output)).toBe("The code that was mailed to jane@example.test: ");
});

test.each(["\n", ""])("askForCode rejects an empty input (%j)", async (typed) => {
  const { input, code } = ask();
  input.end(typed);
  await expect(code).rejects.toThrow("No code was entered");
});

test("askForCode rejects when it is interrupted", async () => {
  const over = new AbortController();
  const { code } = ask(over.signal);
  over.abort();
  await expect(code).rejects.toThrow();
});
