import { describe, expect, test } from "vitest";
import { program } from "../support/in_chromium.ts";
import { FOUR_LOOKS } from "../support/window.ts";
import { askFor, registerShop, startShop } from "./application.ts";
import { journeys } from "./world.ts";

describe.skipIf(program === undefined)("from sign-up to the first allow (needs Debian's chromium)", () => {
  const world = journeys();

  test.each(FOUR_LOOKS)(
    "a new person signs up and delegates to an agent: $width px, scripts $scripts",
    (look) =>
      world.travel(look, async (traveller) => {
        await traveller.signUp();
        expect(await traveller.read()).toContain("Nothing waits for you");
        const told = await registerShop(traveller);
        const shop = await startShop(world.api, told);
        await askFor(traveller, [/data:read/, /payments:send/]);
        await traveller.go("Requests");
        await traveller.at("Requests");
        await traveller.follow("shop-bot");
        await traveller.at("shop-bot asks to act for you");
        await traveller.press(traveller.scripts ? "Approve 2 of 2" : "Approve");
        await traveller.at("shop-bot was given authority");
        expect(await traveller.read()).toContain("Approved. The agent can use it from now on.");

        expect(await shop.decide("data:read")).toBe("allow authorized");
        expect(await shop.decide("custom:orders:refund")).toBe("deny not_delegated");

        await traveller.go("Try it");
        await traveller.at("Try it");
        await traveller.press("Try it");
        await traveller.at("Allowed");
        await traveller.follow("See it in the history");
        await traveller.at("It was allowed");
        await traveller.go("History");
        await traveller.at("History");
        expect(await traveller.row("Allowed").count()).toBe(2);
        expect(await traveller.row("Denied").count()).toBe(1);
        await traveller.go("Home");
        await traveller.at("Hello, Ada");
        expect(await traveller.read()).toMatch(/Nothing waits for you.*Active delegations: 1.*Denied lately/);
      }),
  );
});
