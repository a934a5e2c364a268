import { afterEach, beforeEach, expect, test } from "vitest";
import { isClientSecret } from "../../src/connect/signing_secret.ts";
import { OPERATOR_TOKEN, startApi, type TestApi } from "../support/api.ts";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { nameCluster, type OperatorFolder, operatorFolder, platform } from "./operator_folder.ts";

let api: TestApi;
let world: OperatorFolder;
beforeEach(async () => {
  [api, world] = await Promise.all([startApi(), operatorFolder()]);
  Object.assign(world.config, {
    API_URL: api.url,
    OPERATOR_API_URL: api.operatorUrl,
    OPERATOR_TOKEN,
  });
  await nameCluster(world, "c1");
});
afterEach(async () => {
  await world.dispose();
  await api.stop();
});

/** Declares a platform of a new person's account. */
async function declared() {
  const person = await api.person();
  await world.folders.write("all.yaml", tenants({ default: `accountEmail: ${person.email}` }), platform());
  await world.start();
  await world.reaches("Platform", "shop", "Active");
  return person;
}

const credentials = async () => (await world.credentials()) ?? {};

/** Restarts the operator, because it checks for such changes only at its start and every 10 minutes. */
async function restart() {
  await world.stop();
  await world.start();
}

async function expectBothKeysToWork(...secrets: Record<string, string>[]) {
  for (const { api_key = "", connection_id } of secrets) {
    const agents = await api.client().get(`/v1/service/connections/${connection_id}/agents`, {
      headers: { "x-service-api-key": api_key },
    });
    expect(agents.status).toBe(200);
  }
}

test("the operator copies a promoted webhook secret into the Secret, together with a working key", async () => {
  const person = await declared();
  const first = await credentials();
  const path = `/v1/service/connections/${first.connection_id}/rotate-webhook-secret`;
  const { body } = await person.client.post(path);
  expect((await credentials()).webhook_signing_secret).toBe(first.webhook_signing_secret);
  expect((await person.client.post(`${path}/promote`)).status).toBe(200);
  await restart();
  await until(
    "the Secret has the promoted one",
    async () => (await credentials()).webhook_signing_secret === body.webhook_signing_secret,
  );
  const second = await credentials();
  expect(second.signing_secret).toBe(first.signing_secret);
  expect(second.api_key).not.toBe(first.api_key);
  await expectBothKeysToWork(first, second);
});

test("the operator copies a rotated signing secret into the Secret, and the former one lasts for its grace", async () => {
  const person = await declared();
  const first = await credentials();
  const platformId = String(first.platform_id);
  const path = `/v1/service/platforms/${platformId}/rotate-signing-secret`;
  const { body } = await person.client.post(path, { grace_seconds: 3_600 });
  await restart();
  await until(
    "the Secret has the new one",
    async () => (await credentials()).signing_secret === body.signing_secret,
  );
  const second = await credentials();
  expect(second.webhook_signing_secret).toBe(first.webhook_signing_secret);
  expect(second.api_key).not.toBe(first.api_key);
  await expectBothKeysToWork(first, second);
  const isAccepted = ({ signing_secret = "" }) => isClientSecret(api, platformId, signing_secret);
  expect([await isAccepted(first), await isAccepted(second)]).toEqual([true, true]);
  api.clock.advance(3_600);
  expect([await isAccepted(first), await isAccepted(second)]).toEqual([false, true]);
});
