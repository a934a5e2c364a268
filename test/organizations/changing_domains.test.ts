import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { addSeconds } from "../../src/clock.ts";
import { recheckDomains, type TxtLookup, verifyDomain } from "../../src/organizations/verify_domain.ts";
import { type Person, runningApi } from "../support/api.ts";

const api = runningApi();
const DOMAINS = "/v1/service/organization/domains";
const DAY = 24 * 60 * 60;

/** Adds a domain of a new organization, and verifies it unless `isVerified` is false. */
async function withDomain({ isVerified = true } = {}) {
  const owner = await api.person({ organization_name: "Engines" });
  const domain = `d${randomUUID()}.example.com`;
  await owner.client.post(DOMAINS, { domain });
  if (isVerified) await verify(owner, domain);
  const row = { organization_id: owner.accountId, domain };
  const stored = () => api.db("organization_domains").where(row).first();
  const update = async (changes: object) => api.db("organization_domains").where(row).update(changes);
  return { owner, domain, stored, update };
}

async function verify({ client }: Person, domain: string): Promise<void> {
  expect((await client.post(`${DOMAINS}/${domain}/verify`)).status).toBe(200);
}

async function addAgain({ client }: Person, domain: string): Promise<void> {
  await client.call("DELETE", `${DOMAINS}/${domain}`);
  await client.post(DOMAINS, { domain });
}

const depsOf = (lookupTxt: TxtLookup) => ({
  ...{ db: api.db, clock: api.clock, word: "service", log: pino({ level: "silent" }) },
  signal: new AbortController().signal,
  lookupTxt,
});

/** Dependencies whose lookup of this domain finds no record, after `meanwhile`. */
const missing = (domain: string, meanwhile: () => Promise<unknown>) =>
  depsOf(async (name) => {
    if (!name.endsWith(domain)) return "found";
    await meanwhile();
    return "absent";
  });

/**
 * Makes the domain due with `changes`, and looks it up without finding its record, after `meanwhile`. Begins
 * again if the API's own upkeep took the domain first.
 */
async function recheckMissing(
  { domain, update }: Awaited<ReturnType<typeof withDomain>>,
  changes: object,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  let isTaken = false;
  const lookUp = async () => {
    isTaken = true;
    await meanwhile();
  };
  while (!isTaken) {
    await update({ checked_at: addSeconds(api.clock.now(), -DAY), ...changes });
    await recheckDomains(missing(domain, lookUp));
  }
}

describe("a domain that changes during a lookup", () => {
  test("keeps its new verification, although the record of its former verification is missing", async () => {
    const verified = await withDomain();
    const { owner, domain, stored } = verified;
    await recheckMissing(verified, { failing_since: addSeconds(api.clock.now(), -8 * DAY) }, async () => {
      await addAgain(owner, domain);
      await verify(owner, domain);
    });
    expect(await stored()).toMatchObject({ verified_at: api.clock.now(), failing_since: null });
  });

  test("does not count as failing if it lost its verification", async () => {
    const verified = await withDomain();
    const { stored, update } = verified;
    await recheckMissing(verified, {}, () => update({ verified_at: null }));
    expect(await stored()).toMatchObject({ verified_at: null, failing_since: null });
  });

  test("counts as never looked up if it was added again", async () => {
    const { owner, domain, stored } = await withDomain({ isVerified: false });
    const verifying = verifyDomain(
      missing(domain, () => addAgain(owner, domain)),
      owner.accountId,
      domain,
    );
    await expect(verifying).rejects.toThrow(expect.objectContaining({ code: "domain_record_missing" }));
    expect(await stored()).toMatchObject({ checked_at: null });
  });

  test("stays with its organization if that organization verifies it again", async () => {
    const { owner, domain, stored } = await withDomain();
    const other = await api.person({ organization_name: "Others" });
    await other.client.post(DOMAINS, { domain });
    let lookups = 0;
    const deps = depsOf(async () => {
      lookups += 1;
      if (lookups === 1) return "found";
      await addAgain(owner, domain);
      await verify(owner, domain);
      return "absent";
    });
    const verifying = verifyDomain(deps, other.accountId, domain);
    await expect(verifying).rejects.toThrow(expect.objectContaining({ code: "domain_taken" }));
    expect(await stored()).toMatchObject({ verified_at: api.clock.now() });
  });
});
