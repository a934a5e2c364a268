import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { type Harness, startHarness } from "../../events/support/harness.ts";
import { type Receiver, startReceiver } from "../../events/support/receiver.ts";
import type { Person, TestApi } from "../../support/api.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { type Browser, browserOf } from "../support/console.ts";

/** A person's connection to a real receiver, and the worker's parts on the API's database. */
export type RealReceiver = {
  person: Person;
  browser: Browser;
  connectionId: string;
  secret: string;
  receiver: Receiver;
  harness: Harness;
  at(part: string): string;
};

/** Returns a connection to a real receiver, which the test must close. */
export async function realReceiver(api: TestApi): Promise<RealReceiver> {
  const receiver = await startReceiver(() => api.clock.now().getTime());
  const harness = await startHarness({ database: api.db }, { clock: api.clock, secretBox: api.secretBox });
  const person = await api.person();
  const { connectionId, answer } = await registerPlatform(person);
  // Events from before the callback URL was set are not delivered.
  await harness.run();
  const secret = String(answer.body.webhook_signing_secret);
  receiver.secret = secret;
  const path = `/v1/service/connections/${connectionId}/callback`;
  await person.client.call("PUT", path, { body: { callback_url: receiver.url } });
  return {
    ...{ person, connectionId, secret, receiver, harness, browser: browserOf(api, person.client) },
    at: (part) => `/console/connections/${connectionId}/${part}`,
  };
}

/** Returns a port of this machine on which nothing listens. */
export async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
