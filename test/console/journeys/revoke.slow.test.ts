import { describe, expect, test } from "vitest";
import { program } from "../support/in_chromium.ts";
import { TWO_LOOKS } from "../support/window.ts";
import { askFor, registerShop, startShop } from "./application.ts";
import { journeys } from "./world.ts";

describe.skipIf(program === undefined)("revoking a delegation (needs Debian's chromium)", () => {
  const world = journeys();

  test.each(TWO_LOOKS)(
    "makes later checks fail, and the pages explain the denial: $width px, scripts $scripts",
    (look) =>
      world.travel(look, async (traveller) => {
        const { page } = traveller;
        await traveller.signUp();
        const told = await registerShop(traveller);
        const shop = await startShop(world.api, told);
        await askFor(traveller, [/data:read/]);
        await traveller.press("Approve");
        await traveller.at("shop-bot was given authority");
        expect(await shop.decide("data:read")).toBe("allow authorized");
        const made = await shop.proof();

        await traveller.go("Delegations");
        await traveller.at("Delegations");
        await traveller.follow("shop-bot");
        await traveller.at("Delegation to shop-bot");
        await traveller.follow("Revoke it");
        await traveller.at("Revoke the delegation to shop-bot");
        expect(await traveller.read()).toContain("It was used once in the last 7 days.");
        await traveller.fill("Reason", "The trial is over");
        await traveller.press("Revoke it");
        await traveller.at("Delegation to shop-bot");
        expect(await traveller.read()).toMatch(/Every check of it is denied from now on.*The trial is over/);
        expect(await page.getByRole("link", { name: "Revoke it" }).count()).toBe(0);

        const { body } = await shop.verify(made);
        expect([body.decision, body.decision_reason]).toEqual(["deny", "delegation_revoked"]);
        expect((await shop.present()).body.error).toMatchObject({ code: "no_active_delegation" });

        await traveller.go("History");
        await traveller.at("History");
        await traveller.row("Denied").getByRole("link").click();
        await traveller.at("It was denied");
        const rule = traveller.row("It is known that the delegation is not revoked.");
        expect(await rule.textContent()).toContain("Failed");
        expect(await traveller.read()).toMatch(
          /What would have been needed.*A delegation that is not revoked.*Reason given\s*The trial is over/,
        );
        await traveller.go("Home");
        await traveller.at("Hello, Ada");
        expect(await traveller.read()).toContain("No agent may do anything for you at the moment.");
      }),
  );
});
