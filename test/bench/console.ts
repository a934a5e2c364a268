import { randomBytes, randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import type { Database } from "../../src/db/database.ts";
import { createSecretBox } from "../../src/secret_box.ts";
import { findChromium, startChromium } from "../support/chromium.ts";
import { createProofWorld } from "../support/proof_world.ts";
import { startApiProcess } from "./api_process.ts";
import { withBenchDatabase } from "./database.ts";
import { median } from "./median.ts";
import { processorTime, processorTimeWithChildren } from "./processor_time.ts";

/**
 * How soon a person sees the console's home page, and what goes over the wire: 40 loads in Chromium, each
 * with an empty cache and a browser process that is there, of an account with 20,000 decisions in two weeks.
 * The aim: the first content within 100 ms for 95 of 100, and 60 kB. `node test/bench/console.ts [--json]`.
 */
const LOADS = 40;
const DECISIONS = 20_000;

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
  try {
    const cookies = await signIn(baseUrl, account?.email ?? "");
    const seen: Load[] = [];
    for (let load = 0; load <= LOADS; load += 1) seen.push(await loadHome(browser, baseUrl, cookies));
    const used = () => Promise.all([processorTime(api.pid), processorTimeWithChildren(postgresPid)]);
    const before = await used();
    const header = cookies.map(({ name, value }) => `${name}=${value}`).join("; ");
    for (let load = 0; load < LOADS; load += 1) {
      await (await fetch(`${baseUrl}/console`, { headers: { cookie: header } })).text();
    }
    const spent = (await used()).map((time, part) => (time - (before[part] ?? 0)) / LOADS / 1000);
    const warm = seen.slice(1);
    const by = (key: keyof Load) => warm.map((load) => load[key]).sort((a, b) => a - b);
    const figures = {
      first_content_ms_median: Math.round(median(by("firstContentMs"))),
      first_content_ms_p95: Math.round(by("firstContentMs")[Math.ceil(LOADS * 0.95) - 1] ?? 0),
      answer_ms_median: Math.round(median(by("answerMs"))),
      api_cpu_ms: Number((spent[0] ?? 0).toFixed(1)),
      postgres_cpu_ms: Number((spent[1] ?? 0).toFixed(1)),
      kilobytes: Number(((by("bytes").at(-1) ?? 0) / 1000).toFixed(1)),
    };
    if (process.argv.includes("--json")) {
      console.log(JSON.stringify(figures));
    } else {
      console.table([figures]);
    }
  } finally {
    await api.stop();
  }
});
await browser.close();

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
  const code = /\d{6}/.exec(JSON.stringify(await answer.json()))?.[0];
  const signedIn = await post("/v1/auth/email/verify-code", { email, code });
  if (signedIn.status !== 200) throw new Error(await signedIn.text());
  return signedIn.headers.getSetCookie().map((line) => {
    const [name = "", value = ""] = (line.split(";")[0] ?? "").split("=");
    return { name, value, url: baseUrl };
  });
}

type Load = { firstContentMs: number; answerMs: number; bytes: number };

async function loadHome(chromium: Browser, baseUrl: string, cookies: Cookie[]): Promise<Load> {
  const context = await chromium.newContext();
  await context.addCookies(cookies);
  const page = await context.newPage();
  // The browser's process of this origin is there before; starting it is not the page's doing.
  await page.goto(`${baseUrl}/v1/auth/session`);
  const network = await context.newCDPSession(page);
  await network.send("Network.enable");
  let bytes = 0;
  network.on("Network.loadingFinished", ({ encodedDataLength }) => {
    bytes += encodedDataLength;
  });
  await page.goto(`${baseUrl}/console`, { waitUntil: "networkidle" });
  await page.waitForFunction("performance.getEntriesByName('first-contentful-paint').length > 0");
  const times = await page.evaluate<{ firstContentMs: number; answerMs: number }>(`({
    firstContentMs: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    answerMs: performance.getEntriesByType("navigation")[0].responseEnd,
  })`);
  await context.close();
  return { ...times, bytes };
}
