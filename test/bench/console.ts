import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import type { Database } from "../../src/db/database.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { findChromium, startChromium } from "../support/chromium.ts";
import { createProofWorld } from "../support/proof_world.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";
import { median } from "./results/figures.ts";
import { createRecord, type FigureRecord, inParts } from "./results/record.ts";
import { report } from "./results/tables.ts";
import { percentile } from "./timing.ts";

/**
 * Measures the console's home page in Chromium, with an empty cache, for an account with 20,000 decisions:
 * the time until the first content, and the bytes transferred. The aim is 100 ms and 60 kB. Run `node
 * test/bench/console.ts`.
 *
 * For comparison, it also loads an empty page and the sign-in page, which has the same style and scripts.
 */
const LOADS = 40;
const DECISIONS = 20_000;
const PARTS = 2;

const program = await findChromium();
if (program === undefined) throw new Error("Chromium is needed: apt-get install chromium");
const browser = await startChromium(program);
await withBenchDatabase({}, async ({ db, url, folder, postgresPid }) => {
  const sealingKey = randomBytes(32);
  const world = await createProofWorld(db, createSecretBox(sealingKey));
  await fillHistory(db, world.accountId);
  const account = await db("accounts").where("account_id", world.accountId).first("email");
  const api = await startApiProcess(folder, url, sealingKey);
  const baseUrl = `http://127.0.0.1:${api.port}`;
  const bare = await startBarePage();
  try {
    const cookies = await signIn(baseUrl, account?.email ?? "");
    const seen: Record<Kind, Load[]> = { bare: [], sign_in: [], home: [] };
    for (let load = 0; load <= LOADS; load += 1) {
      seen.bare.push(await loadPage(browser, { baseUrl: bare.url, cookies: [], path: "/page" }));
      seen.sign_in.push(await loadPage(browser, { baseUrl, cookies: [], path: "/v1/auth/email/console" }));
      seen.home.push(await loadPage(browser, { baseUrl, cookies, path: "/console" }));
    }
    const record = createRecord();
    addLoads(record, seen);
    const header = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
    for (let part = 0; part < PARTS; part += 1) {
      const used = () => Promise.all([processorTime(api.pid), processorTimeWithChildren(postgresPid)]);
      const before = await used();
      for (let load = 0; load < LOADS / PARTS; load += 1) {
        await (await fetch(`${baseUrl}/console`, { headers: { cookie: header } })).text();
      }
      for (const [n, time] of (await used()).entries()) {
        const spent = (time - (before[n] ?? 0)) / (LOADS / PARTS) / 1000;
        record.add(`home: ${["API", "Postgres"][n]}`, "ms of the processor a page", spent);
      }
    }
    const ratios = [
      {
        name: "first content, home / bare",
        over: "first content, home: median",
        under: "first content, bare: median",
      },
    ];
    report({ figures: record.figures(), ratios });
  } finally {
    await api.stop();
    bare.stop();
  }
});
await browser.close();

/** Leaves out the first load, which only warms up. */
function addLoads(record: FigureRecord, seen: Record<Kind, Load[]>): void {
  for (const [kind, loads] of Object.entries(seen)) {
    for (const part of inParts(
      loads.slice(1).map(({ firstContentMs }) => firstContentMs),
      PARTS,
    )) {
      record.add(`first content, ${kind}: median`, "ms", median(part));
      record.add(`first content, ${kind}: 95th of 100`, "ms", percentile(part, 0.95));
    }
  }
  for (const { answerMs, bytes } of seen.home.slice(1)) {
    record.add("home: answer", "ms", answerMs);
    record.add("home: over the wire", "kB", bytes / 1000);
  }
}

/** The load time of one empty page is the cost of Chromium itself. */
async function startBarePage(): Promise<{ url: string; stop(): void }> {
  const server = createServer((_, response) => {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end("<!doctype html><title>Bare</title><h1>A page</h1>");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function fillHistory(db: Database, accountId: string): Promise<void> {
  await db.raw(
    `insert into audit_events (account_id, occurred_at, event_id, event_type, connection_id, agent_id, decision,
       decision_reason, required_scope)
     select ?, now() - n * interval '60 seconds', gen_random_uuid(), 'proof.verified', ?, repeat('a', 32),
       case when n % 9 = 0 then 'deny' else 'allow' end, 'authorized', 'data:read'
     from generate_series(1, ?) as n`,
    [accountId, randomUUID(), DECISIONS],
  );
}

type Cookie = { name: string; value: string; url: string };

async function signIn(baseUrl: string, email: string): Promise<Cookie[]> {
  const post = (path: string, body: object) =>
    fetch(`${baseUrl}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  await post("/v1/auth/email/send-code", { email });
  const answer = await fetch(`${baseUrl}/dev/mailbox`, { headers: { accept: "application/json" } });
  const code = /\b\d{6}\b/.exec(JSON.stringify(await answer.json()))?.[0];
  const signedIn = await post("/v1/auth/email/verify-code", { email, code });
  if (signedIn.status !== 200) throw new Error(await signedIn.text());
  return signedIn.headers.getSetCookie().map((line) => {
    const [name = "", value = ""] = (line.split(";")[0] ?? "").split("=");
    return { name, value, url: baseUrl };
  });
}

type Load = { firstContentMs: number; answerMs: number; bytes: number };

type Kind = "bare" | "sign_in" | "home";
type Wanted = { baseUrl: string; cookies: Cookie[]; path: string };

async function loadPage(chromium: Browser, { baseUrl, cookies, path }: Wanted): Promise<Load> {
  const context = await chromium.newContext();
  await context.addCookies(cookies);
  const page = await context.newPage();
  // The page's figures must not include the start of the browser process for this origin.
  await page.goto(`${baseUrl}/v1/auth/session`);
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  let bytes = 0;
  network.on("Network.loadingFinished", ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.goto(`${baseUrl}${path}`, { waitUntil: "networkidle" });
  await page.waitForFunction("performance.getEntriesByName('first-contentful-paint').length > 0");
  const times = await page.evaluate<{ firstContentMs: number; answerMs: number }>(`({
    firstContentMs: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    answerMs: performance.getEntriesByType("navigation")[0].responseEnd,
  })`);
  await context.close();
  return { ...times, bytes };
}
