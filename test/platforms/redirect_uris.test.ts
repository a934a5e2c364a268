import { describe, expect, test } from "vitest";
import { redirectUriFault } from "../../src/platforms/redirect_uris.ts";
import { runningApi } from "../support/api.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";

const api = runningApi();
const PLATFORMS = "/v1/service/platforms";

async function shop() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  const { platformId } = await registerPlatform(owner, {}, PLATFORMS);
  const path = `${PLATFORMS}/${platformId}`;
  return {
    change: (redirect_uris: unknown) => owner.client.call("PATCH", path, { body: { redirect_uris } }),
    shown: async () => (await owner.client.get(path)).body.redirect_uris,
    async publish(domain: string) {
      const row = { organization_id: owner.accountId, domain, token: "t", created_at: api.clock.now() };
      await api
        .db("organization_domains")
        .insert({ ...row, verified_at: row.created_at })
        .onConflict()
        .ignore();
      return owner.client.post(`${path}/publish`, { domain });
    },
  };
}

describe("redirect URIs of a platform", () => {
  test("replace each other with a PATCH, without repetitions, and are none at first", async () => {
    const { change, shown } = await shop();
    expect(await shown()).toEqual([]);
    const uris = ["https://shop.example.com/connected", "http://127.0.0.1:4711/connected"];
    expect((await change([...uris, uris[0]])).body.redirect_uris).toEqual(uris);
    expect((await change([])).body.redirect_uris).toEqual([]);
  });

  test("have at most 10 entries of 512 characters", async () => {
    const { change } = await shop();
    const long = (length: number) => "https://shop.example.com/".padEnd(length, "a");
    expect((await change(Array.from({ length: 10 }, (_, n) => `${long(511)}${n}`))).status).toBe(200);
    expect(errorCode(await change([long(513)]))).toBe("invalid_request");
    expect(errorCode(await change(Array.from({ length: 11 }, (_, n) => long(100 + n))))).toBe(
      "invalid_request",
    );
  });

  test("must be on the verified domain when the platform is published, and stay there", async () => {
    const { change, publish, shown } = await shop();
    await change(["https://shop.example.com/connected", "https://other.example/"]);
    const refused = await publish("shop.example.com");
    expect([refused.status, errorCode(refused)]).toEqual([400, "invalid_redirect_uri"]);
    await change(["https://eu.shop.example.com/connected"]);
    expect((await publish("shop.example.com")).status).toBe(200);
    for (const uri of ["https://other.example/", "http://127.0.0.1/", "https://evilshop.example.com/"]) {
      expect(errorCode(await change([uri])), uri).toBe("invalid_redirect_uri");
    }
    expect(await shown()).toEqual(["https://eu.shop.example.com/connected"]);
  });
});

describe("redirectUriFault", () => {
  const DRAFT = null;
  test.each([
    ["https://shop.example/", DRAFT],
    ["https://shop.example/connected?from=service", DRAFT],
    ["http://localhost:3000/connected", DRAFT],
    ["http://[::1]:3000/", DRAFT],
    ["https://shop.example/", "shop.example"],
    ["https://eu.shop.example:8443/", "shop.example"],
  ])("accepts %s for the domain %s", (uri, domain) => {
    expect(redirectUriFault(uri, domain)).toBeUndefined();
  });

  test.each([
    ["http://shop.example/", DRAFT],
    ["http://localhost.shop.example/", DRAFT],
    ["http://localhost/", "localhost.example"],
    ["javascript:alert(1)//https://shop.example/", DRAFT],
    ["com.example.shop:/connected", DRAFT],
    ["//shop.example/", DRAFT],
    ["https://shop.example", DRAFT],
    ["HTTPS://shop.example/", DRAFT],
    ["https://shop.example/#", DRAFT],
    ["https://user@shop.example/", DRAFT],
    ["https://@shop.example/", DRAFT],
    ["https://shop.example\\@evil.example/", DRAFT],
    ["https://shop.example/a/../b", DRAFT],
    ["https://shop.example/\n", DRAFT],
    ["https://shöp.example/", DRAFT],
    ["https://shop.example/?code=1", DRAFT],
    ["https://shop.example/?%73tate=1", DRAFT],
    ["https://shop.example.evil.example/", "shop.example"],
    ["https://evilshop.example/", "shop.example"],
    ["https://shop.example./", "shop.example"],
    ["https://example/", "shop.example"],
  ])("refuses %j for the domain %s", (uri, domain) => {
    expect(redirectUriFault(uri, domain)).toEqual(expect.any(String));
  });
});
