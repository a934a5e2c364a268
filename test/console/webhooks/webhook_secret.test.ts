import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { promisify } from "node:util";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Received } from "../../events/support/receiver.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { browserOf, type Shown } from "../support/console.ts";
import { copied } from "../support/shell.ts";
import { type RealReceiver, realReceiver } from "./real_receiver.ts";

let api: TestApi;
let own: RealReceiver;
beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  await api.db("rate_limits").delete();
  own = await realReceiver(api);
});
afterEach(() => own.receiver.close());
afterAll(() => api.stop());

const open = () => own.browser.open(own.at("webhook-secret"));
const secretOn = ({ text }: Shown) =>
  /<pre id="secret"[^>]*>(whsec_[A-Za-z0-9+/]{43}=)<\/pre>/.exec(text)?.[1] ?? "";

/** Sends a test event from the page. Returns the page with the result, and the received request. */
async function tested(): Promise<{ shown: Shown; received: Received | undefined }> {
  const asked = await (await open()).send("test");
  await own.harness.run();
  return { shown: await own.browser.open(asked.path), received: own.receiver.requests.at(-1) };
}

/** Returns the secrets that signed a request, by the service's own header and that of Standard Webhooks. */
function signedWith({ headers, body }: Received, secrets: Record<string, string>) {
  const at = String(headers["x-service-timestamp"]);
  const listed = String(headers["webhook-signature"]).split(" ");
  const isOwn = (secret: string) =>
    createHmac("sha256", secret).update(`${at}.${body}`).digest("hex") === headers["x-service-signature"];
  const isListed = (secret: string) =>
    listed.includes(
      new Webhook(secret).sign(String(headers["webhook-id"]), new Date(Number(at) * 1000), body),
    );
  const namesOf = (is: (secret: string) => boolean) =>
    Object.keys(secrets).filter((name) => is(secrets[name] ?? ""));
  return { own: namesOf(isOwn), listed: namesOf(isListed), signatures: listed.length };
}

describe("the page that replaces a webhook secret", () => {
  test("leads through both phases, and each request is signed as described", async () => {
    const former = own.secret;
    const start = await open();
    expect(start.words).toContain("One secret No replacement is in progress.");
    const made = await start.send("rotate");
    const next = secretOn(made);
    expect(made.words).toContain("It is shown only this once.");
    const secrets = { former, next };

    const during = await open();
    expect(during.words).toMatch(
      /Two secrets: the next one waits .*until you continue with step 3\. Since \d/,
    );
    own.receiver.reply = (request) => (signedWith(request, secrets).own.includes("former") ? 204 : 401);
    const first = await tested();
    expect(first.shown.words).toMatch(/Delivered .*HTTP 204/);
    expect(signedWith(first.received as Received, secrets)).toEqual({
      ...{ own: ["former"], listed: ["former", "next"], signatures: 2 },
    });
    // A receiver that switches to the new secret before the promotion gets the request a second time.
    own.receiver.reply = (request) => (signedWith(request, secrets).own.includes("next") ? 204 : 401);
    const changed = await tested();
    expect(changed.shown.words).toMatch(/Delivered .*HTTP 204/);
    expect(signedWith(changed.received as Received, secrets).own).toEqual(["next"]);

    const promoted = await during.send("promote", { grace_seconds: "3600" });
    expect(promoted.words).toContain("The next secret is in use.");
    expect(promoted.words).toMatch(/the former one still signs .* The former one signs until \d/);
    own.receiver.reply = () => 204;
    const last = async () => {
      await own.person.client.post(`/v1/service/connections/${own.connectionId}/deliveries/test`);
      await own.harness.run();
      return signedWith(own.receiver.requests.at(-1) as Received, secrets);
    };
    expect(await last()).toEqual({ own: ["next"], listed: ["former", "next"], signatures: 2 });
    api.clock.advance(3_600);
    await api.db("sessions").update({ expires_at: new Date(api.clock.now().getTime() + 600_000) });
    expect(await last()).toEqual({ own: ["next"], listed: ["next"], signatures: 1 });
  });

  test("shows a secret once: no URL leads back to it, and sending the form again creates no second secret", async () => {
    const start = await open();
    const made = await start.send("rotate");
    const secret = secretOn(made);
    expect(secret).toMatch(/^whsec_/);
    expect(made.path).toBe(own.at("webhook-secret"));
    for (const part of ["webhook-secret", "callback", "deliveries", "recoveries"]) {
      expect((await own.browser.open(own.at(part))).text).not.toContain(secret);
    }
    api.clock.advance(30);
    const again = await start.send("rotate");
    expect([again.status, again.text.includes("whsec_")]).toEqual([200, false]);
    expect(again.words).toContain("This was done already");
    expect(again.words).not.toContain("idempotency");
    expect(api.lines.join("")).not.toContain(secret);
    const boxed = await api.db("connections").where({ connection_id: own.connectionId }).first();
    expect(boxed?.webhook_next_secret_at?.getTime()).toBe(api.clock.now().getTime() - 30_000);
  });

  test("creates a new next secret if the previous next secret was lost", async () => {
    const first = secretOn(await (await open()).send("rotate"));
    const second = secretOn(await (await open()).send("rotate"));
    expect(second).not.toBe(first);
    const { received } = await tested();
    expect(signedWith(received as Received, { first, second }).listed).toEqual(["second"]);
  });

  test("says that there is nothing to promote if another person has already promoted the secret", async () => {
    await (await open()).send("rotate");
    const page = await open();
    const other = await open();
    await page.send("promote", { grace_seconds: "0" });
    const refused = await other.send("promote");
    expect([refused.status, refused.words]).toEqual([
      ...[409, expect.stringContaining("No new webhook secret waits to be promoted.")],
    ]);
  });

  test("offers sample code that accepts either secret and nothing else", async () => {
    api.clock.set(new Date());
    own = await realReceiver(api);
    const next = secretOn(await (await open()).send("rotate"));
    const { shown, received } = await tested();
    const sample = copied(shown, "sample");
    const { headers, body } = received as Received;
    const isTaken = async (env: Record<string, string>, sent = body) => {
      const question = `isGenuine(${JSON.stringify(headers)}, Buffer.from(${JSON.stringify(sent)}))`;
      const program = ["--input-type=module", "--eval", `${sample}\nconsole.log(${question});`];
      return (await promisify(execFile)(process.execPath, program, { env })).stdout.trim();
    };
    expect(await isTaken({ WEBHOOK_SECRET: own.secret })).toBe("true");
    expect(await isTaken({ WEBHOOK_SECRET: "other", WEBHOOK_SECRET_NEXT: own.secret })).toBe("true");
    expect(await isTaken({ WEBHOOK_SECRET: next })).toBe("false");
    expect(await isTaken({})).toBe("false");
    expect(await isTaken({ WEBHOOK_SECRET: own.secret }, `${body} `)).toBe("false");
  });

  test("says that the API key is replaced too if a manifest declares the platform", async () => {
    const person = await api.person();
    const declared = await api.operator(
      "PUT",
      "/internal/v1/platforms/c1.11111111-1111-4111-8111-111111111111",
      {
        ...{ account_email: person.email, name: "Shop", surface_type: "agentic_api" },
        default_allowed_scopes: ["data:read"],
      },
    );
    const path = `/console/connections/${declared.body.connection_id}`;
    const { open: look } = browserOf(api, person.client);
    expect((await look(`${path}/webhook-secret`)).words).toContain(
      "Step 3 therefore replaces its API key too",
    );
    expect((await look(`${path}/callback`)).words).toContain("the operator puts back what the manifest says");
    for (const part of ["webhook-secret", "callback"]) {
      expect((await own.browser.open(own.at(part))).words).not.toContain("manifest");
    }
  });
});
