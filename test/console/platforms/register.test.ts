import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { type Browser, browserOf, formIn } from "../support/console.ts";
import { copied, pasted } from "../support/shell.ts";

const NEW = "/console/platforms/new";
const KEY = /dpz_\w{8}_\w{43}_\w{6}/;
const SECRET = /dpz_\w{8}_\w{43}|whsec_\w|dps_\w/;

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const individual = async (): Promise<Browser> => browserOf(api, (await api.person()).client);
const organization = async (): Promise<Browser> =>
  browserOf(api, (await api.person({ organization_name: "Engines" })).client);

const filled = {
  name: "Shop",
  default_allowed_scopes: ["data:read", "custom:orders:refund\r\ncustom:a:b, payments:*"],
};

async function platformsOf({ client }: Browser): Promise<Record<string, string>[]> {
  return (await client.get("/v1/service/platforms")).body.items as Record<string, string>[];
}

describe("the page that registers a platform", () => {
  test("shows the working key once, and leads to the next step", async () => {
    const browser = await individual();
    const made = await (await browser.open(NEW)).send("register", { ...filled, description: "one\r\ntwo" });
    expect(made.status).toBe(200);
    expect(made.words).toContain("Shop is registered");
    const [platform] = await platformsOf(browser);
    expect(platform).toMatchObject({
      name: "Shop",
      description: "one\ntwo",
      default_allowed_scopes: ["data:read", "custom:orders:refund", "custom:a:b", "payments:*"],
      callback_url: null,
    });
    const key = copied(made, "api-key");
    expect(key).toMatch(KEY);
    const agents = `/v1/service/connections/${platform?.connection_id}/agents`;
    expect((await api.client().get(agents, { headers: { "x-service-api-key": key } })).status).toBe(200);
    expect(copied(made, "webhook-secret")).toMatch(/^whsec_/);
    expect(copied(made, "signing-secret")).toMatch(/^dps_/);
    expect(made.text).toContain(`/console/connections/${platform?.connection_id}/callback"`);
    expect(made.headers.get("cache-control")).toBe("no-store");
    for (const path of [
      "/console/platforms",
      `/console/platforms/${platform?.platform_id}`,
      `/console/connections/${platform?.connection_id}`,
      NEW,
    ]) {
      const shown = await browser.open(path);
      expect([path, shown.status, SECRET.test(shown.text)]).toEqual([path, 200, false]);
    }
    expect(api.lines.join("\n")).not.toContain(key);
  });

  test("shows a shell command that calls the API with the key", async () => {
    const browser = await individual();
    const made = await (await browser.open(NEW)).send("register", filled);
    const line = copied(made, "try-key");
    expect(line).toContain("X-Service-API-Key: $API_KEY");
    expect(line).not.toContain(copied(made, "api-key"));
    const agents = await pasted(api, line, copied(made, "api-key"));
    expect(agents).toEqual({ items: [], next_cursor: null });
  });

  test("registers nothing more if the same form is sent again, and shows no secret", async () => {
    const browser = await organization();
    const opened = await browser.open(NEW);
    expect(SECRET.test((await opened.send("register", filled)).text)).toBe(true);
    for (const _ of [1, 2]) {
      const again = await opened.send("register", filled);
      expect([again.status, SECRET.test(again.text)]).toEqual([200, false]);
      expect(again.words).toContain("This was done already");
    }
    expect(await platformsOf(browser)).toHaveLength(1);
    api.clock.advance(700);
    expect(SECRET.test((await opened.send("register", filled)).text)).toBe(false);
    expect(await platformsOf(browser)).toHaveLength(1);
  });

  test("registers one platform if the form is sent concurrently, and shows its secrets once", async () => {
    const browser = await organization();
    const opened = await browser.open(NEW);
    const both = await Promise.all([1, 2, 3].map(() => opened.send("register", filled)));
    expect(both.filter(({ text }) => SECRET.test(text))).toHaveLength(1);
    expect(await platformsOf(browser)).toHaveLength(1);
  });

  test("shows errors at their fields, and keeps the selections", async () => {
    const browser = await organization();
    const opened = await browser.open(NEW);
    const refused = async (values: Record<string, string | string[]>) => {
      const shown = await opened.send("register", { ...filled, ...values });
      expect(shown.status).toBe(400);
      return shown;
    };
    const none = await refused({ default_allowed_scopes: "" });
    expect(none.text).toContain('id="register-default_allowed_scopes-fault">Choose 1 to 64 scopes.');
    const unknown = await refused({ default_allowed_scopes: ["data:read", "data:reed\r\ncustom:a:b"] });
    expect(unknown.text).toMatch(/id="register-default_allowed_scopes-fault">[^<]*data:reed/);
    expect(unknown.text).toContain('value="data:read" checked');
    expect(unknown.text).toContain(">\ndata:reed\ncustom:a:b</textarea>");
    expect(formIn(unknown, "register").fields.name).toBe("Shop");
    const local = await refused({ callback_url: "https://10.0.0.1/" });
    expect(local.text).toContain('id="register-callback_url-fault"');
    expect((await refused({ name: " " })).text).toContain('id="register-name-fault"');
    expect(await platformsOf(browser)).toEqual([]);
  });

  test("does not let a personal account register a second platform", async () => {
    const browser = await individual();
    expect((await browser.open("/console/platforms")).text).toContain(`href="${NEW}"`);
    expect((await browser.open("/console/platforms")).words).toContain("There is no platform yet");
    const [opened, late] = [await browser.open(NEW), await browser.open(NEW)];
    await opened.send("register", filled);
    const list = await browser.open("/console/platforms");
    expect(list.text).not.toContain(`href="${NEW}"`);
    expect(list.words).toContain("A personal account has one platform");
    const again = await browser.open(NEW);
    const [platform] = await platformsOf(browser);
    expect(again.words).toContain("A personal account has one platform");
    expect(again.text).toContain(
      `href="/console/platforms/${platform?.platform_id}">Open <bdi>Shop</bdi></a>`,
    );
    expect(again.text.slice(again.text.indexOf("<main"))).not.toContain("<form");
    const second = await late.send("register", filled);
    expect([second.status, SECRET.test(second.text)]).toEqual([409, false]);
    expect(second.words).toContain("A personal account can register only one platform");
  });

  test("lets an organization register any number of platforms", async () => {
    const browser = await organization();
    for (const name of ["Shop", "Warehouse"]) {
      await (await browser.open(NEW)).send("register", { ...filled, name });
    }
    const list = await browser.open("/console/platforms");
    expect(list.words).toMatch(/Warehouse .* Shop/);
    expect(list.text).toContain(`href="${NEW}"`);
  });
});
