import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addSeconds } from "../../../src/clock.ts";
import { writeReport } from "../../../src/db/reports.ts";
import { createShardLeases } from "../../../src/events/shards.ts";
import { partNames } from "../../../src/installation/installation.ts";
import { VaultUnavailable } from "../../../src/vault/client.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { createFakeVault } from "../../support/fake_vault.ts";
import { addMember } from "../../support/members.ts";
import { administratorOf } from "../../support/service_world.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { type Browser, browserOf, markupOf, type Shown } from "../support/console.ts";
import { administratorViewer } from "./viewer.ts";

const PAGES = ["/console/service", "/console/service/suspended"];

let api: TestApi;
let administrator: Browser;
let vaultSays: () => Promise<void> = async () => {};

beforeAll(async () => {
  api = await startApi({ vault: { ...createFakeVault(), health: () => vaultSays() } });
  administrator = browserOf(api, (await administratorOf(api)).client);
});
afterAll(() => api.stop());

function cardOf(shown: Shown, part: string): string {
  const card = new RegExp(`<section [^>]*aria-labelledby="part-${part}">(.*?)</section>`, "s");
  return shown
    .element(`card of ${part}`, card)
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ");
}

const look = () => administrator.open("/console/service");

describe("the pages for service administrators", () => {
  test("appear only in the navigation of service administrators", async () => {
    const link = '<a href="/console/service"';
    expect((await administrator.open("/console")).text).toContain(link);
    expect((await browserOf(api, (await api.person()).client).open("/console")).text).not.toContain(link);
  });

  test.each(PAGES)("do not exist for anybody else: %s", async (path) => {
    const owner = await api.person({ organization_name: "Engines" });
    const member = await addMember(api, owner.accountId, "owner");
    for (const { client } of [owner, member, await api.person()]) {
      const shown = await browserOf(api, client).open(path);
      expect([shown.status, shown.words.includes("There is no such page")]).toEqual([404, true]);
    }
  });

  test.each(PAGES)(
    "do not exist for a service administrator who acts for an organization: %s",
    async (path) => {
      const owner = await api.person({ organization_name: "Engines" });
      const person = await administratorOf(api);
      await api.db("organization_members").insert({
        organization_id: owner.accountId,
        account_id: person.accountId,
        role: "owner",
        joined_at: api.clock.now(),
      });
      const browser = browserOf(api, person.client);
      const place = `/console/for/${owner.accountId}`;
      const shown = await browser.open(path.replace("/console", place));
      expect([shown.status, shown.words.includes("There is no such page")]).toEqual([404, true]);
      expect((await browser.open(place)).text).not.toContain(`${place}/service`);
      expect((await browser.open(path)).status).toBe(200);
    },
  );
});

describe("the service page", () => {
  test("has a card for every part, with its state in words", async () => {
    const shown = await look();
    for (const part of partNames) expect(cardOf(shown, part)).toMatch(/Answers|Look at it|Act now|No answer/);
    expect(shown.words).not.toMatch(/deputize_|_seconds|undefined|\[object/);
  });

  test("names first the parts that need action", async () => {
    const shown = await look();
    expect(shown.words).toContain("Act now: Workers");
    expect(cardOf(shown, "workers")).toContain("Running workers ✕ Act now 0");
    const leases = createShardLeases(api.db, randomUUID(), 60);
    await leases.renew();
    expect(cardOf(await look(), "workers")).toContain("Running workers 1");
    await leases.release();
  });

  test("explains a sealed and an unreachable vault", async () => {
    vaultSays = async () => Promise.reject(new VaultUnavailable("sealed", "sealed"));
    const sealed = cardOf(await look(), "vault");
    expect(sealed).toContain("Key vault ✕ Act now");
    expect(sealed).toContain("sealed: nothing is signed until somebody unseals it");
    vaultSays = async () => Promise.reject(new VaultUnavailable("unreachable", "away"));
    expect(cardOf(await look(), "vault")).toContain("does not answer");
    vaultSays = async () => {};
    expect(cardOf(await look(), "vault")).toContain("open: it signs");
  });

  test("shows every other part while one part does not respond", async () => {
    const lock = await api.db.transaction();
    await lock.raw("lock table notices in access exclusive mode");
    const shown = await look();
    await lock.rollback();
    expect(shown.status).toBe(200);
    expect(shown.words).toContain("No answer: Mail");
    expect(cardOf(shown, "mail")).toContain("It gave no answer: no answer within 3 s.");
    expect(cardOf(shown, "events")).toContain("Events that wait to be published");
  });

  test("shows the time of figures that are not current", async () => {
    const differences = { balance: 2, books: 0 };
    const content = { accounts: 1_234, postings: 5, differences };
    await writeReport(api.db, "ledger", { at: addSeconds(api.clock.now(), -120), content });
    const shown = cardOf(await look(), "ledger");
    expect(shown).toContain("Differences ✕ Act now 2 As of");
    expect(shown).toContain("Accounts compared 1,234");
  });

  test("shows waiting times in readable units", async () => {
    const { client } = await administratorViewer(api);
    const shown = await browserOf(api, client).open("/console/service");
    expect(cardOf(shown, "events")).toContain("The oldest of them has waited 1 min 40 s");
    expect(cardOf(shown, "webhooks")).toContain("See which callbacks");
    await api.db("outbox").delete();
  });

  test("escapes every cluster name", async () => {
    const named = async (cluster_id: string) => {
      await api.db("operator_clusters").delete();
      await api.db("operator_clusters").insert({ cluster_id, epoch: 1, seen_at: api.clock.now() });
      return (await look()).text;
    };
    const plain = markupOf(await named("prod"));
    for (const text of XSS_CORPUS) expect([text, markupOf(await named(text))]).toEqual([text, plain]);
    await api.db("operator_clusters").delete();
  });
});

describe("the page with suspended callbacks", () => {
  test("shows each callback's host, owner and reason, but not the path of its URL", async () => {
    const { ids, ...browser } = await administratorViewer(api);
    const shown = await browser.open("/console/service/suspended");
    expect(shown.words).toContain("hooks.example.test:8443");
    expect(shown.words).toContain("It answered 410: it wants no further events");
    expect(shown.words).toContain(ids.connection);
    expect(shown.text).not.toContain("8443/deputize");
  });

  test("says that no callback is suspended if the list is empty", async () => {
    await api.db("webhook_deliveries").delete();
    await api.db("webhook_endpoints").delete();
    expect((await administrator.open("/console/service/suspended")).words).toContain(
      "No callback is suspended.",
    );
    expect(cardOf(await look(), "webhooks")).not.toContain("See which callbacks");
  });
});
