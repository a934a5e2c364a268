import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../src/dev/process/ports.ts";
import { installLibrary, type ShopProgram, startShopProgram } from "../../connect/shop_program.ts";
import { addMember } from "../../support/members.ts";
import { program } from "../support/in_chromium.ts";
import { FOUR_LOOKS, type Look, TWO_LOOKS } from "../support/window.ts";
import { registerShop } from "./application.ts";
import { type ProductFront, startFront } from "./product.ts";
import type { Traveller } from "./traveller.ts";
import { journeys } from "./world.ts";

const DOMAIN = "example.com";
const ORIGIN = `https://shop.${DOMAIN}`;
const [, LARGE] = TWO_LOOKS;
const { missing } = await installLibrary("JavaScript");
/** Persons connect in two looks, and approvers of an organization in the other two. */
const CUSTOMERS = FOUR_LOOKS.map((look, place) => ({
  ...look,
  customer: place % 2 === 0 ? "a person" : "an approver",
}));

describe.skipIf(program === undefined || missing !== undefined)(
  "a customer of another company's product (needs Debian's chromium and openid-client)",
  () => {
    let front: ProductFront;
    let backend: number;
    let shop: ShopProgram;
    const publisher = { email: "publisher@example.test", platformId: "" };
    const world = journeys(async () => {
      backend = await freePort();
      front = await startFront(ORIGIN, backend);
      return front;
    });

    // One publisher for all customers: it registers, names its redirect URI, proves its domain and publishes.
    beforeAll(async () => {
      let secret = "";
      await world.travel(
        LARGE!,
        async (traveller) => {
          await traveller.signUp("Shop Works");
          await verifyDomain(traveller);
          secret = (await registerShop(traveller)).signingSecret;
          publisher.platformId = traveller.page.url().split("/").at(-1)?.split("?")[0] ?? "";
          await traveller.follow("Change it");
          await traveller.at("Change Shop");
          await traveller.fill("Redirect URIs", `${ORIGIN}/connected`);
          await traveller.press("Save");
          await traveller.at("Shop");
          await traveller.press("Publish");
          await traveller.page.getByText("The platform is published.").waitFor();
          await traveller.at("Shop");
        },
        publisher,
      );
      const { platformId } = publisher;
      const settings = { port: backend, origin: ORIGIN, baseUrl: world.api.url, platformId, secret };
      shop = await startShopProgram("JavaScript", settings);
    });
    afterAll(async () => {
      await shop?.stop();
      front?.close();
    });

    async function verifyDomain(traveller: Traveller): Promise<void> {
      await traveller.go("Organization");
      await traveller.at("Shop Works");
      await traveller.follow("Domains");
      await traveller.at("Domains");
      await traveller.fill("Domain", DOMAIN);
      await traveller.press("Add the domain");
      await traveller.at(DOMAIN);
      await traveller.press("Check now");
      await traveller.page.getByText("Verified since").waitFor();
    }

    /** Lets the product's agent read, at the product's page. */
    async function letRead({ page, press }: Traveller): Promise<void> {
      await page.goto(ORIGIN);
      await press("Let the agent read");
    }

    async function read(traveller: Traveller): Promise<string> {
      await letRead(traveller);
      await traveller.page.waitForURL(`${ORIGIN}/read`);
      // A denial has the status 403, which Chromium reports.
      traveller.complaints.splice(0);
      return (await traveller.page.locator("body").textContent()) ?? "";
    }

    /** The publisher finds the customer, with what it may be lent at most and one live delegation. */
    async function seenByPublisher(look: Look, name: string): Promise<void> {
      const client = world.api.client();
      await client.signIn(publisher.email);
      const journey = async (traveller: Traveller) => {
        await traveller.page.goto(`${world.api.url}/console/platforms/${publisher.platformId}`);
        await traveller.follow("Customers");
        await traveller.at("Customers of Shop");
        await traveller.follow(name);
        await traveller.at(name);
        expect(await traveller.read()).toMatch(/data:readpayments:send.*Live delegations\s*1/);
      };
      await world.travel(look, journey, { client });
    }

    async function approverOf(company: string): Promise<string> {
      const owner = await world.api.person({ organization_name: company });
      return (await addMember(world.api, owner.accountId, "approver")).email;
    }

    test.each(CUSTOMERS)(
      "connects, lends, narrows and ends: $customer, $width px, $theme, scripts $scripts",
      async ({ customer, ...look }) => {
        const company = customer === "an approver" ? `Bakers at ${look.theme}` : undefined;
        const email = company && (await approverOf(company));
        await world.travel(
          look,
          async (traveller) => {
            const { page } = traveller;
            await page.goto(ORIGIN);
            await traveller.at("Shop");
            await traveller.follow("Connect an account");
            await (company === undefined ? traveller.onboard() : traveller.signIn());
            await traveller.at("Connect Shop?");
            if (company !== undefined) await traveller.follow(company);
            await traveller.at("Connect Shop?");
            expect(await traveller.read()).toMatch(
              new RegExp(`From ✓ ${DOMAIN}.*Shop Works.*lends nothing yet.*${company ?? "your own account"}`),
            );
            await page.getByRole("checkbox", { name: /orders:refund/ }).uncheck();
            await traveller.press("Connect");
            await page.waitForURL(`${ORIGIN}/connected?*`);
            expect(await page.locator("body").textContent()).toBe(
              `Connected ${company ?? "Ada Lovelace"} with data:read payments:send`,
            );
            await letRead(traveller);
            await traveller.at(`Shop bot asks to act for ${company ?? "you"}`);
            await traveller.press("Approve");
            await traveller.at("Shop bot was given authority");
            const decided = page.url();
            expect(await read(traveller)).toBe("Allowed. The agent has read your orders.");

            await seenByPublisher(look, company ?? "Ada Lovelace");

            await page.goto(decided);
            await traveller.go("History");
            await traveller.at("History");
            expect(await traveller.row("Allowed").count()).toBe(1);
            await traveller.go("Products");
            await traveller.at("Connected products");
            await traveller.follow("Shop");
            await traveller.at("Shop");
            await page.getByRole("checkbox", { name: /data:read/ }).uncheck();
            await traveller.press("Narrow");
            await page.getByText("Its agents can be lent less from now on.").waitFor();
            await traveller.at("Shop");
            const product = page.url();
            // The product can neither use the scope nor ask for it again.
            expect(await read(traveller)).toBe("ceiling_exceeded");

            await page.goto(product);
            await traveller.at("Shop");
            await traveller.press("End the connection");
            await page.getByText("The connection has ended.").waitFor();
            await traveller.at("Connected products");
            expect(await read(traveller)).toBe("invalid_api_key");
          },
          { email },
        );
      },
    );
  },
);
