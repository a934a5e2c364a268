import { randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import { type Harness, startHarness } from "../../events/support/harness.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { startChromium } from "../../support/chromium.ts";
import { steeredClock } from "../../support/clock.ts";
import { mailerTo, type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { program } from "../support/in_chromium.ts";
import { type Look, openWindow } from "../support/window.ts";
import { createTraveller, type Traveller } from "./traveller.ts";

/** The service and the tools that journeys use. */
export type World = {
  api: TestApi;
  /** Parts of the worker, which run only when the test calls them. */
  worker: Harness;
  /** Runs `journey` for a new person in a new Chromium window. */
  travel(look: Look, journey: (traveller: Traveller) => Promise<void>): Promise<void>;
};

/** Starts the service, an SMTP server, a worker and Chromium for all tests of a file. */
export function journeys(): World {
  const world = {} as World;
  let smtp: SmtpReceiver;
  let browser: Browser;

  beforeAll(async () => {
    smtp = await startSmtp();
    const clock = steeredClock();
    const api = await startApi({ clock, mailer: () => mailerTo(smtp) });
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
