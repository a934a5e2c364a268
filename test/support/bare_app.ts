import type { RequestListener } from "node:http";
import { pino } from "pino";
import { systemClock as clock } from "../../src/clock.ts";
import { createApp } from "../../src/http/app.ts";
import type { Authenticators } from "../../src/http/authenticate.ts";
import type { Metrics } from "../../src/metrics.ts";
import type { Route } from "../../src/route.ts";

const never = () => Promise.reject(new Error("this app does not support the call"));

/** Creates the API's HTTP application with only these routes, for callers with or without an API key. */
export function createBareApp({
  routes,
  metrics,
  baseUrl = "http://127.0.0.1",
  findApiKey = never,
}: {
  routes: Route[];
  metrics: Metrics;
  baseUrl?: string;
  findApiKey?: Authenticators["findApiKey"];
}): RequestListener {
  return createApp({
    routes,
    config: { BASE_URL: baseUrl, SERVICE_WORD: "service", SERVICE_WORD_ALIASES: [], TRUSTED_PROXIES: [] },
    authenticators: {
      findApiKey,
      findSession: never,
      isServiceAdministrator: () => false,
      identifyOperator: never,
      isLeader: never,
    },
    idempotency: { once: never, sweep: never, forgetSecrets: never },
    rates: { take: never, within: never },
    changeRates: { take: () => {} },
    activity: { run: never },
    log: pino({ level: "silent" }),
    clock,
    metrics,
  });
}
