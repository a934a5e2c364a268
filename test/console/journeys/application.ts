import { expect } from "vitest";
import { callsOf } from "../../proofs/application.ts";
import type { TestApi } from "../../support/api.ts";
import { createAgent } from "../../support/platform_world.ts";
import type { Traveller } from "./traveller.ts";

/** The values that pages show for an application. */
export type Told = { apiKey: string; connectionId: string; webhookSecret: string; signingSecret: string };

/** An application with its own agent. */
export type Shop = ReturnType<typeof callsOf> & {
  /** Lets the agent request an action. Returns the decision and its reason, or the error. */
  decide(scope: string, context?: Record<string, unknown>): Promise<string>;
};

/** Registers a platform through the pages, from the home page on. Returns its secrets. */
export async function registerShop(traveller: Traveller): Promise<Told> {
  const { page } = traveller;
  await traveller.go("Platforms");
  await traveller.at("Platforms");
  await traveller.follow("Register a platform");
  await traveller.at("Register a platform");
  await traveller.fill("Name", "Shop");
  await page.locator("summary", { hasText: /^data/ }).click();
  await page.getByLabel("data:read").check();
  await page.locator("summary", { hasText: /^payments/ }).click();
  await page.getByLabel("payments:send").check();
  await traveller.fill("Your own scopes", "custom:orders:refund");
  await traveller.press("Register the platform");
  await traveller.at("Shop is registered");
  const apiKey = (await page.getByLabel("API key", { exact: true }).textContent()) ?? "";
  const webhookSecret = (await page.getByLabel(/^Webhook secret/).textContent()) ?? "";
  const signingSecret = (await page.locator("#signing-secret").textContent()) ?? "";
  const line = (await page.locator("#try-key").textContent()) ?? "";
  const connectionId = /\/connections\/([0-9a-f-]{36})\//.exec(line)?.[1] ?? "";
  await traveller.follow("Open the platform");
  await traveller.at("Shop");
  return { apiKey, connectionId, webhookSecret, signingSecret };
}

/** Creates the agent of the application that has this API key. */
export async function startShop(api: TestApi, told: Told): Promise<Shop> {
  const client = api.client();
  const calls = callsOf(client, told, await createAgent(client, told));
  return {
    ...calls,
    async decide(scope, context) {
      const proof = await calls.proof();
      const { body } = await calls.verify(proof, { required_scope: scope, ...(context && { context }) });
      return `${body.decision} ${body.decision_reason}`;
    },
  };
}

/**
 * Requests a delegation on the page about the application's agent, and opens the request from the home page.
 */
export async function askFor(traveller: Traveller, scopes: RegExp[], days = ""): Promise<void> {
  await traveller.go("Agents");
  await traveller.at("Agents");
  await traveller.follow("shop-bot");
  await traveller.at("shop-bot");
  await traveller.follow("Ask for a delegation");
  await traveller.at("Ask for a delegation to shop-bot");
  for (const name of scopes) await traveller.page.getByRole("checkbox", { name }).check();
  await traveller.fill("Ends after", days);
  await traveller.press("Ask for it");
  await traveller.at("shop-bot asks to act for you");
  expect(await traveller.read()).toContain("Asked. The request waits for a decision.");
  await traveller.go("Home");
  await traveller.at("Hello, Ada");
  expect(await traveller.read()).toContain("1 request waits for you");
  await traveller.follow(/shop-bot/);
  await traveller.at("shop-bot asks to act for you");
}
