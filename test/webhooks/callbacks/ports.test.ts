import { Dispatcher, fetch } from "undici";
import { expect, test } from "vitest";
import { isForeignPort } from "../../../src/webhooks/callback_address.ts";

/** Beyond the highest of them. */
const LAST = 12_000;

/** Lets no request out. */
class Closed extends Dispatcher {
  override dispatch(): boolean {
    throw new Error("would have been sent");
  }
}

const whyNot = (port: number): Promise<string> =>
  fetch(`http://receiver.example:${port}/`, { dispatcher: new Closed() }).then(
    () => "sent",
    ({ cause }: Error) => (cause as Error).message,
  );

test("a port belongs to another protocol exactly where another implementation of the Fetch standard says so", async () => {
  const refused: number[] = [];
  const foreign: number[] = [];
  for (let port = 1; port <= LAST; port += 1) {
    if ((await whyNot(port)) === "bad port") refused.push(port);
    if (isForeignPort(new URL(`https://receiver.example:${port}/`))) foreign.push(port);
  }
  expect(refused.length).toBeGreaterThan(70);
  expect(foreign).toEqual(refused);
});
