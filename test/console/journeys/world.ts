import { randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import type { Mailer } from "../../../src/accounts/mail/smtp.ts";
import { freePort } from "../../../src/dev/process/ports.ts";
import { type Harness, startHarness } from "../../events/support/harness.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { startChromium } from "../../support/chromium.ts";
import { steeredClock } from "../../support/clock.ts";
import type { HttpClient } from "../../support/http.ts";
import { mailerTo, type SmtpReceiver, startSmtp } from "../../support/smtp.ts";
import { program } from "../support/in_chromium.ts";
import { type Look, openWindow } from "../support/window.ts";
import { createTraveller, type Traveller } from "./traveller.ts";

/** The service and the tools that journeys use. */
export type World = {
  api: TestApi;
  /** Parts of the worker, which run only when the test calls them. */
  worker: Harness;
  /** Runs `journey` for a person, who is new unless `known`, in a new Chromium window. */
  travel(look: Look, journey: (traveller: Traveller) => Promise<void>, known?: Known): Promise<void>;
};

/** The address of a person, whose sign-in is still to come, or their signed-in client. */
type Known = { email?: string | undefined; client?: HttpClient };

/** A product that journeys visit too: its origin, and where Chromium finds it. */
type Visited = { origin: string; port: number };

/** Starts the service, an SMTP server, a worker and Chromium for all tests of a file. */
export function journeys(productOf?: () => Promise<Visited>): World {
  const world = {} as World;
  let smtp: SmtpReceiver;
  let browser: Browser;
  let visited: Visited | undefined;

  beforeAll(async () => {
    smtp = await startSmtp();
    const clock = steeredClock();
    const port = await freePort();
    const config = { BASE_URL: `http://127.0.0.1:${port}`, PORT: port };
    const api = await startApi({ clock, config, mailer: (own) => toBoth(own, mailerTo(smtp)) });
    world.api = api;
    world.worker = await startHarness({ database: api.db }, { clock, secretBox: api.secretBox });
    visited = await productOf?.();
    const rules =
      visited === undefined
        ? []
        : [`--host-resolver-rules=MAP ${new URL(visited.origin).hostname} 127.0.0.1:${visited.port}`];
    browser = await startChromium(program ?? "", rules);
  });

  afterAll(async () => {
    await browser?.close();
    await world.api?.stop();
    await smtp?.stop();
  });

  world.travel = async (look, journey, { client, email = newAddress() } = {}) => {
    const product = visited?.origin;
    const opened = { look, client, ...(product !== undefined && { product }) };
    const window = await openWindow(browser, world.api, opened);
    try {
      await journey(createTraveller({ url: world.api.url, window, email, look, mails: smtp.mails }));
    } finally {
      await window.close();
    }
  };
  return world;
}

function newAddress(): string {
  return `ada-${randomUUID().slice(0, 8)}@example.test`;
}

/** Sends each mail to the development mailbox, which `person` of the test API reads, and by SMTP. */
function toBoth(mailbox: Mailer, smtp: Mailer): Mailer {
  return {
    async send(mail) {
      await mailbox.send(mail);
      await smtp.send(mail);
    },
    close() {
      mailbox.close();
      smtp.close();
    },
  };
}
