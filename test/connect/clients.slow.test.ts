import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../src/dev/process/ports.ts";
import { type Person, startApi, type TestApi } from "../support/api.ts";
import { codeBlocks } from "../support/markdown.ts";
import { addMember } from "../support/members.ts";
import { approve } from "../support/platform_world.ts";
import { connectScene, type Product } from "./scene.ts";
import { EXAMPLES, installLibrary, SHOPS, type ShopProgram, startShopProgram } from "./shop_program.ts";

const missing = (await installLibrary("JavaScript")).missing ?? (await installLibrary("Python")).missing;
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

test("the page about connecting shows the products that this test runs", async () => {
  const shown = (await codeBlocks("docs/connect.md")).map(({ code }) => code);
  for (const name of Object.values(SHOPS)) {
    expect(shown).toContain(await readFile(join(EXAMPLES, name), "utf8"));
  }
});

describe.skipIf(missing !== undefined).each([
  { library: "openid-client", language: "JavaScript" },
  { library: "Authlib", language: "Python" },
] as const)("a product with the unmodified library $library", { timeout: 60_000 }, ({ language }) => {
  let api: TestApi;
  let product: Product;
  let shop: ShopProgram;
  let origin: string;
  let customer: Person;

  beforeAll(async () => {
    const port = await freePort();
    const baseUrl = `http://127.0.0.1:${port}`;
    api = await startApi({ config: { BASE_URL: baseUrl, PORT: port } });
    const shopPort = await freePort();
    origin = `http://127.0.0.1:${shopPort}`;
    product = await connectScene(api).product({ isDraft: true, redirect: `${origin}/connected` });
    customer = await api.person();
    await addMember(api, product.owner.accountId, "auditor", customer);
    const { platformId, secret } = product;
    shop = await startShopProgram(language, { port: shopPort, baseUrl, platformId, secret });
  });
  afterAll(async () => {
    await shop?.stop();
    await api?.stop();
  });

  type Answer = { status: number; text: string; type: string; location: string };

  /** A browser at the product, which keeps its cookie. */
  function browser() {
    let cookie = "";
    return async (address: string, method = "GET"): Promise<Answer> => {
      const answer = await fetch(new URL(address, origin), {
        method,
        headers: { cookie },
        redirect: "manual",
      });
      const set = answer.headers.getSetCookie().map((each) => each.split(";")[0]);
      if (set.length > 0) cookie = set.join("; ");
      return {
        status: answer.status,
        text: await answer.text(),
        type: answer.headers.get("content-type") ?? "",
        location: answer.headers.get("location") ?? "",
      };
    };
  }

  /** Starts at the product, and returns the browser and the path of the signed request. */
  async function begun() {
    const visit = browser();
    const { location } = await visit("/connect");
    const page = await fetch(location, { redirect: "manual" });
    const id = page.headers.get("location")?.split("/connect/")[1];
    return { visit, path: `/v1/service/connect-requests/${id}` };
  }
  const decide = async (path: string, decision: "approve" | "decline") => {
    const { consent_hash, declines_to } = (await customer.client.get(path)).body;
    if (decision === "decline") return String(declines_to);
    const body = { scopes: ["data:read"], consent_hash };
    return String((await customer.client.post(`${path}/approve`, body)).body.redirect_to);
  };

  test("gets a connection, asks the customer, and is then allowed what the customer lent", async () => {
    const { visit, path } = await begun();
    const connected = await visit(await decide(path, "approve"));
    expect([connected.status, connected.text]).toEqual([200, "Connected Ada Lovelace with data:read"]);
    const [connection] = await connectScene(api).customers(product);
    expect(connection).toMatchObject({
      customer_account_id: customer.accountId,
      allowed_scopes: ["data:read"],
    });
    const asked = await visit("/read", "POST");
    expect(asked.status).toBe(303);
    const [, requestId = ""] = /\/requests\/([\w-]+)$/.exec(asked.location) ?? [];
    expect((await approve(customer, requestId, ["data:read"])).status).toBe(200);
    const allowed = await visit("/read", "POST");
    expect([allowed.status, allowed.text]).toEqual([200, "Allowed. The agent has read your orders."]);
    const end = `/v1/service/connected-products/${connection?.connection_id}`;
    expect((await customer.client.call("DELETE", end)).status).toBe(200);
    const refused = await visit("/read", "POST");
    expect([refused.status, refused.text]).toEqual([403, "invalid_api_key"]);
  });

  test("connects nobody when the customer declines, or when another browser returns", async () => {
    const declined = await begun();
    const answer = await declined.visit(await decide(declined.path, "decline"));
    expect([answer.status, answer.text]).toEqual([400, "Not connected: access_denied"]);
    const [mallory, victim] = [await begun(), await begun()];
    const address = await decide(mallory.path, "approve");
    expect((await victim.visit(address)).status).toBe(400);
    expect((await browser()(address)).status).toBe(400);
    expect((await victim.visit("/read", "POST")).status).toBe(400);
  });

  test("shows what others have written as plain text only", async () => {
    const { visit, path } = await begun();
    const { consent_hash } = (await customer.client.get(path)).body;
    const body = { scopes: ["data:read"], consent_hash, shown_name: "<b>Ada" };
    const { redirect_to } = (await customer.client.post(`${path}/approve`, body)).body;
    const connected = await visit(String(redirect_to));
    expect([connected.text, connected.type]).toEqual([
      "Connected <b>Ada with data:read",
      "text/plain; charset=utf-8",
    ]);
  });
});
