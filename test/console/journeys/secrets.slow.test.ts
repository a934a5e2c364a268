import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Received, type Receiver, startReceiver } from "../../events/support/receiver.ts";
import { program } from "../support/in_chromium.ts";
import { TWO_LOOKS } from "../support/window.ts";
import { registerShop } from "./application.ts";
import { journeys } from "./world.ts";

/** Checks a request's signature with the Standard Webhooks library. */
function isSignedWith({ headers, body }: Received, secret: string): boolean {
  const at = new Date(Number(headers["webhook-timestamp"]) * 1000);
  const expected = new Webhook(secret).sign(String(headers["webhook-id"]), at, body);
  return String(headers["webhook-signature"]).split(" ").includes(expected);
}

describe.skipIf(program === undefined)("replacing secrets (needs Debian's chromium)", () => {
  const world = journeys();
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver(() => world.api.clock.now().getTime());
  });
  afterAll(() => receiver?.close());

  test.each(TWO_LOOKS)("works for the webhook secret, in two phases: $width px, scripts $scripts", (look) =>
    world.travel(look, async (traveller) => {
      const { page } = traveller;
      await traveller.signUp();
      const { webhookSecret } = await registerShop(traveller);
      receiver.secret = webhookSecret;
      // Events from before the callback URL was set are not delivered.
      await world.worker.run();
      await traveller.follow("Callback");
      await traveller.at("Callback of Shop");
      await traveller.fill("Callback URL", receiver.url);
      await traveller.press("Save");
      await page.getByText("The callback URL is saved.").waitFor();
      await page.getByRole("navigation", { name: "Parts of this connection" }).waitFor();
      await traveller.follow("Webhook secret");
      await traveller.at("Webhook secret of Shop");

      const nextSecret = async (button: string) => {
        await traveller.press(button);
        await traveller.at("The next webhook secret");
        const secret = (await page.getByLabel("Next webhook secret").textContent()) ?? "";
        expect(secret).toMatch(/^whsec_/);
        await traveller.follow("Go on with step 2");
        await traveller.at("Webhook secret of Shop");
        expect(await page.content()).not.toContain(secret);
        return secret;
      };
      /** Returns for each secret whether it signed the test event. */
      const signedBy = async (...secrets: string[]) => {
        await traveller.press("Send a test event");
        await page.getByText("On its way").waitFor();
        await world.worker.run();
        if (!traveller.scripts) await traveller.follow("Look again");
        // Search only the test's result, since the list below it shows the responses to earlier tests.
        await page.locator("#test").getByText("HTTP 204").waitFor();
        const received = receiver.requests.at(-1) as Received;
        expect(received.event.event).toBe("callback.test");
        return secrets.map((secret) => isSignedWith(received, secret));
      };

      const first = await nextSecret("Make the next secret");
      const second = await nextSecret("Make another next secret");
      expect(await signedBy(webhookSecret, first, second)).toEqual([true, false, true]);
      await page.getByLabel("The former secret signs for").selectOption("no longer: it ends immediately");
      await traveller.press("Use the next secret");
      await page.getByText("The next secret is in use.").waitFor();
      await traveller.at("Webhook secret of Shop");

      const third = await nextSecret("Make the next secret");
      expect(await signedBy(second, third)).toEqual([true, true]);
      await page.getByLabel("The former secret signs for").selectOption("an hour");
      await traveller.press("Use the next secret");
      await page.getByText("The next secret is in use.").waitFor();
      expect(await traveller.read()).toContain("the former one still signs");
      await page.getByRole("navigation", { name: "Parts of this connection" }).waitFor();
      await traveller.follow("Callback");
      await traveller.at("Callback of Shop");
      expect(await signedBy(second, third)).toEqual([true, true]);
      world.api.clock.advance(3_601);
      await page.reload();
      // The session has expired. Without scripts, a button renews it.
      if (!traveller.scripts) await traveller.press("Continue");
      await traveller.at("Callback of Shop");
      expect(await signedBy(second, third)).toEqual([false, true]);
    }),
  );

  test.each(TWO_LOOKS)("works for the API key, with a grace period: $width px, scripts $scripts", (look) =>
    world.travel(look, async (traveller) => {
      const { page } = traveller;
      await traveller.signUp();
      const { apiKey, connectionId } = await registerShop(traveller);
      const statusOf = async (key: string) => {
        const path = `/v1/service/connections/${connectionId}/agents`;
        return (await world.api.client().get(path, { headers: { "x-service-api-key": key } })).status;
      };
      /** Replaces the API key. `choice` selects the grace period of the former key. */
      const replace = async (choice: RegExp) => {
        await traveller.follow("Replace the API key");
        await traveller.at("Replace the API key");
        await page.getByRole("radio", { name: choice }).check();
        await traveller.press("Replace the key");
        await traveller.at("The new API key");
        const key = (await page.getByLabel("API key", { exact: true }).textContent()) ?? "";
        await traveller.follow("Back to the connection");
        await traveller.at("Connection of Shop");
        expect(await page.content()).not.toContain(key);
        return key;
      };

      await traveller.follow("Keys and settings");
      await traveller.at("Connection of Shop");
      const second = await replace(/^1 hour/);
      expect(await traveller.row("good until").count()).toBe(1);
      expect([await statusOf(apiKey), await statusOf(second)]).toEqual([200, 200]);
      await traveller.press("End the former keys now");
      await page.getByText("The former keys have ended.").waitFor();
      expect([await statusOf(apiKey), await statusOf(second)]).toEqual([401, 200]);
      const third = await replace(/^1 hour/);
      world.api.clock.advance(3_601);
      expect([await statusOf(second), await statusOf(third)]).toEqual([401, 200]);
    }),
  );
});
