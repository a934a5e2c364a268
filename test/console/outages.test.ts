import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SIGN_IN } from "../../src/console/core/places.ts";
import { connectScene } from "../connect/scene.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { until } from "../support/process.ts";
import { startTcpProxy } from "../support/surroundings/tcp_proxy.ts";
import { type Browser, browserOf, formIn, type Shown } from "./support/console.ts";

const FRIEND = "friend@example.test";

let proxy: Awaited<ReturnType<typeof startTcpProxy>>;
let first: TestApi;
let api: TestApi;
let owner: Person;
let browser: Browser;
let invite: Shown;
beforeAll(async () => {
  first = await startApi();
  proxy = await startTcpProxy(first.databaseUrl);
  api = await startApi({ shares: first, databaseUrl: proxy.url, deadlineMs: 1_500 });
  owner = await api.person({ organization_name: "Engines" });
  browser = browserOf(api, owner.client);
  invite = await browser.open("/console/organization/invite");
});
afterAll(async () => {
  proxy.mend();
  await api.stop();
  await proxy.stop();
  await first.stop();
});

const invitations = () => first.db("organization_invitations").where({ organization_id: owner.accountId });

/** Sends a kept form until the database answers again, as its reader would. */
async function sentAgain(held: Shown, form: string): Promise<Shown> {
  let shown = await held.send(form);
  await until("the database answers", async () => {
    if (shown.status !== 503) return true;
    shown = await shown.send(form);
    return shown.status !== 503;
  });
  return shown;
}

describe("while the database does not answer", () => {
  test("pages report the failure in time, and entered text can be sent again afterwards", async () => {
    const ask = await browserOf(api).open(SIGN_IN);
    proxy.stall();
    const [home, held, code] = await Promise.all([
      browser.open("/console"),
      invite.send("invite", { email: FRIEND, role: "auditor" }),
      ask.send("send_code", { email: FRIEND }),
    ]);
    for (const shown of [home, held, code]) {
      expect([shown.status, shown.headers.get("content-type")]).toEqual([503, "text/html; charset=utf-8"]);
    }
    expect(home.words).toContain("Nothing was changed by what you just opened.");
    expect(held.words).toContain("Nothing was done. What you entered is kept.");
    expect(code.words).toContain("It is not known whether this was done.");
    expect(formIn(code, "send_code").fields.email).toBe(FRIEND);
    proxy.mend();
    const sent = await sentAgain(held, "invite");
    expect(sent.words).toContain("The invitation was sent.");
    expect(await invitations()).toHaveLength(1);
    expect((await sentAgain(code, "send_code")).words).toContain(`We sent a code to ${FRIEND}`);
  });
});

describe("while the database is unavailable", () => {
  test("the form that connects a product is not kept, because only its own page may lead to the product", async () => {
    const { product, begun } = connectScene(first);
    const { requestId } = await begun(await product());
    const form = await browser.open(`/console/connect/${requestId}`);
    proxy.cut();
    const refused = await form.send("connect", { scopes: ["data:read"] });
    proxy.mend();
    expect([refused.status, refused.text.includes("Send it again")]).toEqual([503, false]);
  });

  test("a form is kept, and can be sent again afterwards", async () => {
    const other = "other@example.test";
    const form = await browser.open("/console/organization/invite");
    proxy.cut();
    const held = await form.send("invite", { email: other, role: "auditor" });
    expect([held.status, formIn(held, "invite").fields.email]).toEqual([503, other]);
    const again = await held.send("invite");
    expect([again.status, formIn(again, "invite").fields.email]).toEqual([503, other]);
    proxy.mend();
    expect((await sentAgain(again, "invite")).words).toContain("The invitation was sent.");
    expect(await invitations().where({ email: other })).toHaveLength(1);
  });
});
