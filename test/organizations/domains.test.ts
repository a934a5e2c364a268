import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { readDomain } from "../../src/organizations/domain_records.ts";
import { createOrganizationRates } from "../../src/organizations/rates.ts";
import { createTxtLookup, recheckDomains, type TxtLookup } from "../../src/organizations/verify_domain.ts";
import { wholeApi } from "../http/walk/world.ts";
import type { Person } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { createAgent, errorCode, registerPlatform, selfRequest } from "../support/platform_world.ts";
import { type DnsServer, startDnsServer } from "../support/surroundings/dns_server.ts";

let dns: DnsServer;
const lookupTxt: TxtLookup = (name, value) => createTxtLookup([dns.address], 400)(name, value);
const api = wholeApi({ lookupTxt });
const DOMAINS = "/v1/service/organization/domains";
const DAY = 24 * 60 * 60;

beforeAll(async () => {
  dns = await startDnsServer();
});
afterAll(() => dns.stop());
afterEach(() => {
  dns.fault = undefined;
});

const organization = () => api.person({ organization_name: "Analytical Engines" });
const fresh = () => `d${randomUUID()}.example.com`;
const add = ({ client }: Person, domain: string) => client.post(DOMAINS, { domain });
const verify = ({ client }: Person, domain: string) => client.post(`${DOMAINS}/${domain}/verify`);
const recheck = () =>
  recheckDomains({
    ...{ db: api.db, clock: api.clock, lookupTxt, word: "service", log: pino({ level: "silent" }) },
    signal: new AbortController().signal,
  });

function publishRecord({ body }: HttpAnswer): { name: string } {
  const record = body.record as { name: string; value: string };
  dns.records.set(record.name, [[record.value]]);
  return record;
}

async function verified(domain = fresh()) {
  const owner = await organization();
  const record = publishRecord(await add(owner, domain));
  expect((await verify(owner, domain)).status).toBe(200);
  return { owner, domain, record };
}

async function shownOf({ client }: Person, domain: string) {
  const { body } = await client.get(DOMAINS);
  return (body.domains as Record<string, unknown>[]).find((each) => each.domain === domain);
}

/** Advances the clock, and signs the people in again. */
async function later(seconds: number, ...people: Person[]) {
  api.clock.advance(seconds);
  for (const { client, email } of people) await client.signIn(email);
}

describe("a domain", () => {
  test("can be verified by its TXT record among other records, in any number of chunks", async () => {
    const [owner, domain] = [await organization(), fresh()];
    const added = await add(owner, domain);
    const { name, value, type } = added.body.record as Record<string, string>;
    expect([added.status, type, name]).toEqual([201, "TXT", `_service-challenge.${domain}`]);
    expect(value).toMatch(/^service-verification=[0-9a-f]{32}$/);
    expect(added.body.checked_at).toBeNull();
    expect(errorCode(await verify(owner, domain))).toBe("domain_record_missing");
    const { body } = await owner.client.get(DOMAINS);
    const checked = { verified_at: null, checked_at: api.clock.now().toISOString() };
    expect(body.domains).toMatchObject([checked]);
    dns.records.set(String(name), [["v=spf1 -all"], [String(value).slice(0, 9), String(value).slice(9)]]);
    const answer = await verify(owner, domain);
    expect([answer.status, answer.body.verified_at]).toEqual([200, api.clock.now().toISOString()]);
    expect((await verify(owner, domain)).body.verified_at).toBe(answer.body.verified_at);
  });

  test.each([
    ["with another value", (value: string) => [[`${value}0`]]],
    ["with additional text", (value: string) => [[` ${value}`]]],
    ["split into two records", (value: string) => [[value.slice(0, 9)], [value.slice(9)]]],
    ["that is empty", () => [[""]]],
  ])("cannot be verified by a record %s", async (_, recordsOf) => {
    const [owner, domain] = [await organization(), fresh()];
    const { name, value } = (await add(owner, domain)).body.record as { name: string; value: string };
    dns.records.set(name, recordsOf(value));
    expect(errorCode(await verify(owner, domain))).toBe("domain_record_missing");
    dns.records.delete(name);
    dns.records.set(domain, [[value]]);
    expect(errorCode(await verify(owner, domain))).toBe("domain_record_missing");
  });

  test("causes a DNS query only for the TXT record that verifies it", async () => {
    const { owner, domain } = await verified();
    dns.asked.length = 0;
    await verify(owner, domain);
    expect(new Set(dns.asked.map(({ name, type }) => `${type} ${name}`))).toEqual(
      new Set([`16 _service-challenge.${domain}`]),
    );
  });

  test.each([2, 5, "nothing"] as const)(
    "stays unverified, and the call returns 503, if DNS fails (response code: %s)",
    async (fault) => {
      const [owner, domain] = [await organization(), fresh()];
      publishRecord(await add(owner, domain));
      dns.fault = fault;
      const answer = await verify(owner, domain);
      expect([answer.status, errorCode(answer)]).toEqual([503, "unavailable"]);
      expect(await shownOf(owner, domain)).toMatchObject({ verified_at: null });
    },
  );

  test.each([
    ["Example.COM", "example.com"],
    ["shop.example.co.uk", "shop.example.co.uk"],
    ["Bücher.example.com", "xn--bcher-kva.example.com"],
    ["somebody.github.io", "somebody.github.io"],
  ])("gets its canonical form: %s becomes %s", (text, domain) => {
    expect(readDomain(text)).toBe(domain);
  });

  test.each([
    ...["com", "co.uk", "github.io", "xn--p1ai", "localhost", "shop.internal", "shop.test", "127.0.0.1"],
    ...["[::1]", "2130706433.com.", "example.com.", "*.example.com", "_x.example.com", "a..example.com"],
    ...["example.com/x", "user@example.com", "example.com:53", "http://example.com", "exa mple.com"],
    ...["ex\u200bample.com", "1.2.3.4.in-addr.arpa", `${"a".repeat(64)}.com`],
  ])("cannot be verified if its name is %j", async (text) => {
    expect(() => readDomain(text)).toThrow(expect.objectContaining({ code: "invalid_domain" }));
  });

  test("belonging to a different organization can be neither verified, seen nor removed", async () => {
    const { domain } = await verified();
    const other = await organization();
    expect(errorCode(await verify(other, domain))).toBe("not_found");
    expect(errorCode(await other.client.call("DELETE", `${DOMAINS}/${domain}`))).toBe("not_found");
    expect((await other.client.get(DOMAINS)).body.domains).toEqual([]);
  });
});

test("domains are looked up at most 20 times in 15 minutes for an organization", async () => {
  const takeLookup = (id: string) => createOrganizationRates(api.db).takeLookup(id);
  for (let n = 0; n < 20; n++) await takeLookup("a");
  await expect(takeLookup("a")).rejects.toThrow(expect.objectContaining({ code: "rate_limited" }));
  await takeLookup("b");
});

describe("two organizations with the same domain", () => {
  test("have separate records, and the first organization keeps the domain while that organization's record exists", async () => {
    const { owner, domain, record } = await verified();
    const other = await organization();
    const added = await add(other, domain);
    const records = [...(dns.records.get(record.name) ?? [])];
    publishRecord(added);
    dns.records.get(record.name)?.push(...records);
    expect(errorCode(await verify(other, domain))).toBe("domain_taken");
    dns.records.set(record.name, [[String((added.body.record as { value: string }).value)]]);
    expect((await verify(other, domain)).status).toBe(200);
    expect(await shownOf(owner, domain)).toMatchObject({ verified_at: null });
    expect(errorCode(await verify(owner, domain))).toBe("domain_record_missing");
  });

  test("cannot both verify the domain at the same time", async () => {
    const domain = fresh();
    const owners = await Promise.all([organization(), organization(), organization()]);
    const added = await Promise.all(owners.map((owner) => add(owner, domain)));
    const records = added.map(({ body }) => body.record as { name: string; value: string });
    dns.records.set(
      String(records[0]?.name),
      records.map(({ value }) => [value]),
    );
    const answers = await Promise.all(owners.map((owner) => verify(owner, domain)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  });
});

describe("a verified domain", () => {
  test("still has its daily lookup after a lookup by an owner failed", async () => {
    const { owner, domain, record } = await verified();
    await later(DAY, owner);
    dns.records.delete(record.name);
    expect(errorCode(await verify(owner, domain))).toBe("domain_record_missing");
    await recheck();
    expect(await shownOf(owner, domain)).toMatchObject({ failing_since: api.clock.now().toISOString() });
  });

  test("has a lookup once a day, and loses its verification if its record was missing for 7 days", async () => {
    const { owner, domain, record } = await verified();
    dns.asked.length = 0;
    await recheck();
    expect(dns.asked).toEqual([]);
    await later(DAY, owner);
    const kept = dns.records.get(record.name) ?? [];
    dns.records.delete(record.name);
    await recheck();
    expect(await shownOf(owner, domain)).toMatchObject({ failing_since: api.clock.now().toISOString() });
    await later(3 * DAY, owner);
    dns.records.set(record.name, kept);
    await recheck();
    expect(await shownOf(owner, domain)).toMatchObject({ failing_since: null });
    await later(DAY, owner);
    dns.fault = "nothing";
    await recheck();
    await later(7 * DAY - 1, owner);
    await recheck();
    expect((await shownOf(owner, domain))?.verified_at).not.toBeNull();
    await later(DAY, owner);
    await recheck();
    expect(await shownOf(owner, domain)).toMatchObject({ verified_at: null, failing_since: null });
  }, 60_000);

  test("has its lookup on only one of several replicas", async () => {
    const { record } = await verified();
    await later(2 * DAY);
    dns.asked.length = 0;
    await Promise.all([recheck(), recheck(), recheck()]);
    expect(dns.asked.filter(({ name }) => name === record.name)).toHaveLength(1);
  });
});

describe("a platform", () => {
  const PLATFORMS = "/v1/service/platforms";
  const publish = ({ client }: Person, id: string, body?: object) =>
    client.post(`${PLATFORMS}/${id}/publish`, body);
  const seen = (id: string) => api.client().get(`/v1/registry/platforms/${id}`);

  test("can only be published under a verified domain, and stays visible to everyone until it is a draft again", async () => {
    const owner = await organization();
    const { platformId } = await registerPlatform(owner, {}, PLATFORMS);
    const domain = fresh();
    const added = await add(owner, domain);
    for (const body of [undefined, { domain }, { domain: "other.example.com" }]) {
      expect(errorCode(await publish(owner, platformId, body))).toBe("domain_not_verified");
    }
    expect(errorCode(await seen(platformId))).toBe("not_found");
    publishRecord(added);
    await verify(owner, domain);
    expect((await publish(owner, platformId)).body).toMatchObject({
      publish_state: "published",
      published_domain: domain,
    });
    expect((await seen(platformId)).body).toEqual({
      platform_id: platformId,
      name: expect.any(String),
      description: "",
      surface_type: "agentic_api",
      publisher: { name: "Analytical Engines", domain, human_id: owner.humanId },
    });
    const { body } = await owner.client.post(`${PLATFORMS}/${platformId}/unpublish`);
    expect(body).toMatchObject({ publish_state: "draft", published_domain: null });
    expect(errorCode(await seen(platformId))).toBe("not_found");
  });

  test("becomes suspended when its domain loses its verification, is removed or moves to a different organization", async () => {
    const { owner, domain } = await verified();
    const platform = await registerPlatform(owner, {}, PLATFORMS);
    const state = async () =>
      (await owner.client.get(`${PLATFORMS}/${platform.platformId}`)).body.publish_state;
    await publish(owner, platform.platformId);
    await createAgent(api.client(), platform);
    const requestId = await selfRequest(owner, platform.connectionId);
    const request = `/v1/service/delegations/requests/${requestId}`;
    expect((await owner.client.get(request)).body).toMatchObject({
      platform: { platform_id: platform.platformId },
      publisher: { name: "Analytical Engines", domain },
    });
    await owner.client.call("DELETE", `${DOMAINS}/${domain}`);
    expect(await state()).toBe("suspended");
    expect((await owner.client.get(request)).body.publisher).toBeNull();
    expect(errorCode(await seen(platform.platformId))).toBe("not_found");
    publishRecord(await add(owner, domain));
    await verify(owner, domain);
    expect(await state()).toBe("suspended");
    await publish(owner, platform.platformId);
    expect(await state()).toBe("published");
    dns.records.clear();
    const other = await organization();
    publishRecord(await add(other, domain));
    expect((await verify(other, domain)).status).toBe(200);
    expect(await state()).toBe("suspended");
    expect(errorCode(await publish(owner, platform.platformId))).toBe("domain_not_verified");
  });

  test("belonging to a personal account cannot be published, and one of a different account is not_found", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person);
    expect(errorCode(await publish(person, platformId))).toBe("not_available");
    expect(errorCode(await person.client.post(`${PLATFORMS}/${platformId}/unpublish`))).toBe("not_available");
    const { owner } = await verified();
    for (const id of [platformId, randomUUID(), "nonsense"]) {
      expect(errorCode(await publish(owner, id))).toBe("not_found");
    }
    expect(errorCode(await add(person, fresh()))).toBe("not_available");
  });
});
