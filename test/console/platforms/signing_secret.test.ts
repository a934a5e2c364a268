import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isClientSecret } from "../../../src/connect/signing_secret.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { copyCustomers } from "../../support/many_customers.ts";
import { registerPlatform } from "../../support/platform_world.ts";
import { connect, publisher } from "../../support/two_companies.ts";
import { browserOf, type Shown } from "../support/console.ts";
import { platformViewer } from "./platform_viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function scene() {
  const person = await api.person();
  const { platformId, answer } = await registerPlatform(person);
  const { open } = browserOf(api, person.client);
  const path = `/console/platforms/${platformId}`;
  const isAccepted = (secret: unknown) => isClientSecret(api, platformId, String(secret));
  return { open, path, isAccepted, former: answer.body.signing_secret };
}

const secretOn = ({ text }: Shown) =>
  /<pre id="signing-secret"[^>]*>(dps_[\w-]{43})<\/pre>/.exec(text)?.[1] ?? "none";

describe("the page that replaces a signing secret", () => {
  test("shows the new secret once, and both secrets work until the grace ends", async () => {
    const { open, path, isAccepted, former } = await scene();
    const platform = await open(path);
    const form = await open(platform.element("link", /<a href="([^"]*\/signing-secret)"/));
    const made = await form.send("rotate", { grace_seconds: "3600" });
    const secret = secretOn(made);
    expect(made.words).toMatch(/The former secret stays valid until \d/);
    expect(await Promise.all([former, secret].map(isAccepted))).toEqual([true, true]);
    api.clock.advance(600);
    const again = await form.send("rotate", { grace_seconds: "3600" });
    expect([again.status, secretOn(again)]).toEqual([200, "none"]);
    expect(again.words).toContain("This was done already");
    api.clock.advance(3_000);
    expect(await Promise.all([former, secret].map(isAccepted))).toEqual([false, true]);
  });

  test("keeps the former secret for a day by default, and ends it immediately if asked to", async () => {
    const { open, path, isAccepted, former } = await scene();
    const form = () => open(`${path}/signing-secret`);
    const second = secretOn(await (await form()).send("rotate"));
    expect(await isAccepted(former)).toBe(true);
    const made = await (await form()).send("rotate", { grace_seconds: "0" });
    expect(made.words).toContain("The former secret has ended.");
    expect(await Promise.all([former, second, secretOn(made)].map(isAccepted))).toEqual([false, false, true]);
  });

  test("says that the API key is replaced too if a manifest declares the platform", async () => {
    const seen = await platformViewer(api);
    const path = (platform = "") => `/console/platforms/${platform}/signing-secret`;
    const words = "Its API key is therefore replaced too";
    expect((await seen.open(path(seen.ids.declared))).words).toContain(words);
    expect((await seen.open(path(seen.ids.platform))).words).not.toContain(words);
  });

  test("offers nothing while the platform is being removed, and neither do the platform's other pages", async () => {
    const shop = await publisher(api);
    const { connectionId } = await connect(api, shop);
    await copyCustomers(api.db, connectionId, 25);
    const { client } = shop.person;
    const { open } = browserOf(api, client);
    const path = `/console/platforms/${shop.platform.platformId}`;
    const form = await open(`${path}/signing-secret`);
    await client.call("DELETE", `/v1/service/connections/${shop.platform.connectionId}`);
    for (const suffix of ["", "/change", "/signing-secret"]) {
      const shown = await open(`${path}${suffix}`);
      expect(shown.words).toContain("The platform is removed");
      expect(shown.text).not.toMatch(/name="form" value="(change|rotate|publish)"/);
    }
    const late = await form.send("rotate");
    expect([late.status, secretOn(late)]).toEqual([404, "none"]);
  });

  test("finds no platform of another account", async () => {
    const { path } = await scene();
    const other = browserOf(api, (await api.person()).client);
    expect((await other.open(`${path}/signing-secret`)).status).toBe(404);
  });
});
