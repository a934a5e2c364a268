import { randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { type Harness, startHarness } from "../../events/support/harness.ts";
import { startChromium } from "../../support/chromium.ts";
import { steeredClock } from "../../support/clock.ts";
import type { PlatformApi } from "../../support/platform_world.ts";
import { mailerTo, type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { startConsole } from "../support/console.ts";
import { program } from "../support/in_chromium.ts";
import { type Look, openWindow, WIDTHS } from "../support/window.ts";
import { createTraveller, type Traveller } from "./traveller.ts";

/** How each journey is made: with and without scripts, on a phone and on a desk. */
export const WAYS: Look[] = WIDTHS.flatMap((width) =>
  [true, false].map((scripts) => ({ width, scripts, theme: "light" as const })),
);

/** What journeys are made in. */
export type World = {
  api: PlatformApi;
  /** The worker's parts, which run when the test says so. */
  worker: Harness;
  /** Somebody new before a window of Chromium; the window is closed after `journey`. */
  travel(look: Look, journey: (traveller: Traveller) => Promise<void>): Promise<void>;
};

/** The service with its pages, mail by SMTP, a worker and Chromium, from a file's first test to its last. */
export function journeys(): World {
  const world = {} as World;
  let smtp: SmtpReceiver;
  let browser: Browser;

  beforeAll(async () => {
    smtp = await startSmtp();
    const clock = steeredClock();
    const api = await startConsole({ clock, mailer: mailerTo(smtp) });
    world.api = api;
    world.worker = await startHarness({ database: api.db }, { clock, secretBox: api.secretBox });
    browser = await startChromium(program ?? "");
  });

  afterAll(async () => {
    await browser?.close();
    await world.api?.stop();
    await smtp?.stop();
  });

  world.travel = async (look, journey) => {
    const window = await openWindow(browser, world.api, { look });
    const email = `ada-${randomUUID().slice(0, 8)}@example.test`;
    try {
      await journey(createTraveller({ url: world.api.url, window, email, look, mails: smtp.mails }));
    } finally {
      await window.close();
    }
  };
  return world;
}
