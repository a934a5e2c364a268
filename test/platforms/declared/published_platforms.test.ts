import { describe, expect, test } from "vitest";
import { runningApi } from "../../support/api.ts";
import { errorCode, registerPlatform } from "../../support/platform_world.ts";
import { connect, endFor } from "../../support/two_companies.ts";
import { type Declared, declaration, declarations, newUid, path } from "../declarations.ts";

const api = runningApi();
const { put, declared } = declarations(api);
const SHOP = "https://shop.example.com/connected";
const LOCAL = "http://127.0.0.1:3000/connected";

const shown = async ({ person, answer }: Declared) =>
  (await person.client.get(`/v1/service/platforms/${String(answer.body.platform_id)}`)).body;

async function stateOf({ id }: Declared): Promise<Record<string, unknown>> {
  const { body } = await api.operator("POST", "/internal/v1/state", { external_ids: [id] });
  return (body.platforms as Record<string, Record<string, unknown>>)[id]!;
}

const inState = ({ answer }: Declared, publish_state: "published" | "suspended") =>
  api
    .db("platforms")
    .where({ platform_id: String(answer.body.platform_id) })
    .update({ publish_state, published_domain: "shop.example.com" });

describe("redirect URIs of a declared platform", () => {
  test("exist from the registration on, and stay if a declaration omits them", async () => {
    const shop = await declared({ redirect_uris: [SHOP, LOCAL, SHOP] });
    expect((await shown(shop)).redirect_uris).toEqual([SHOP, LOCAL]);
    await put(shop.id, declaration(shop.person, { name: "Renamed" }));
    expect(await shown(shop)).toMatchObject({ name: "Renamed", redirect_uris: [SHOP, LOCAL] });
    await put(shop.id, declaration(shop.person, { redirect_uris: [] }));
    expect((await shown(shop)).redirect_uris).toEqual([]);
  });

  test("return to the declared ones after a person has changed them", async () => {
    const shop = await declared({ redirect_uris: [SHOP] });
    const place = `/v1/service/platforms/${String(shop.answer.body.platform_id)}`;
    await shop.person.client.call("PATCH", place, { body: { redirect_uris: [LOCAL] } });
    expect((await shown(shop)).redirect_uris).toEqual([LOCAL]);
    await put(shop.id, declaration(shop.person, { redirect_uris: [SHOP] }));
    expect((await shown(shop)).redirect_uris).toEqual([SHOP]);
  });

  test("follow the rules of the platform's state, and a refusal quotes the URI and changes nothing", async () => {
    const person = await api.person();
    const refused = await put(
      newUid(),
      declaration(person, { redirect_uris: [SHOP, "http://evil.example/"] }),
    );
    expect([errorCode(refused), refused.text]).toEqual([
      "invalid_redirect_uri",
      expect.stringContaining('The redirect URI \\"http://evil.example/\\" must be https'),
    ]);
    expect(await api.db("platforms").where({ account_id: person.accountId })).toEqual([]);
    const shop = await declared({ redirect_uris: [SHOP] });
    for (const state of ["published", "suspended"] as const) {
      await inState(shop, state);
      for (const uri of [LOCAL, "https://evilshop.example.com/"]) {
        const body = declaration(shop.person, { name: "New", redirect_uris: [uri] });
        expect(errorCode(await put(shop.id, body)), uri).toBe("invalid_redirect_uri");
      }
    }
    expect(await shown(shop)).toMatchObject({ name: "Shop", redirect_uris: [SHOP] });
    const moved = { redirect_uris: ["https://eu.shop.example.com/"] };
    expect((await put(shop.id, declaration(shop.person, moved))).status).toBe(200);
  });

  test("have at most 10 entries of 512 characters", async () => {
    const person = await api.person();
    for (const redirect_uris of [
      Array.from({ length: 11 }, (_, n) => `${SHOP}${n}`),
      [SHOP.padEnd(513, "a")],
    ]) {
      const body = declaration(person, { redirect_uris });
      expect(errorCode(await put(newUid(), body))).toBe("invalid_request");
    }
  });

  test("leave a platform where it is if an object that takes it over declares a wrong one", async () => {
    const person = await api.person();
    const { platformId } = await registerPlatform(person);
    const id = newUid();
    const object = { namespace: "default", name: "shop" };
    const confirmation = { cluster: "c1", ...object };
    const adoption = `/v1/service/platforms/${platformId}/adoption`;
    await person.client.call("PUT", adoption, { body: confirmation });
    const adopting = (uri: string) =>
      put(id, declaration(person, { object, adopt: platformId, redirect_uris: [uri] }));
    expect(errorCode(await adopting("http://evil.example/"))).toBe("invalid_redirect_uri");
    expect((await person.client.get(adoption)).body.adoption).toMatchObject(confirmation);
    expect((await adopting(SHOP)).body.platform_id).toBe(platformId);
  });
});

describe("the operator", () => {
  test("learns from both look-ups how far a platform is published, and how many customers it has", async () => {
    const shop = await declared();
    const platform = { platformId: String(shop.answer.body.platform_id) };
    expect(await stateOf(shop)).toMatchObject({ publish_state: "draft", customers: 0 });
    const test = await connect(api, { platform });
    await inState(shop, "published");
    await connect(api, { platform });
    const known = { publish_state: "published", customers: 2 };
    expect(await stateOf(shop)).toMatchObject(known);
    expect((await put(shop.id, declaration(shop.person))).body).toMatchObject(known);
    const listed = `/v1/service/platforms/${platform.platformId}/customers`;
    expect((await shop.person.client.get(listed)).body.items).toHaveLength(2);
    await connect(api, { platform }, { person: test.person });
    expect(await stateOf(shop)).toMatchObject(known);
    await endFor(api, test);
    await inState(shop, "suspended");
    expect(await stateOf(shop)).toMatchObject({ publish_state: "suspended", customers: 1 });
  });

  test("counts no customers of other platforms", async () => {
    const [shop, other] = [await declared(), await declared()];
    await connect(api, { platform: { platformId: String(other.answer.body.platform_id) } });
    expect([await stateOf(shop), await stateOf(other)]).toMatchObject([{ customers: 0 }, { customers: 1 }]);
  });

  test("gets and changes the own connection only, however many customers a platform has", async () => {
    const shop = await declared();
    const { connection_id, api_key_prefix } = shop.answer.body;
    const platform = { platformId: String(shop.answer.body.platform_id) };
    const customers = [await connect(api, { platform }), await connect(api, { platform })];
    const own = { connection_id, api_key_prefix, verifier_id: connection_id };
    expect(await stateOf(shop)).toMatchObject(own);
    expect((await put(shop.id, declaration(shop.person, { redirect_uris: [SHOP] }))).body).toMatchObject(own);
    const rotated = await api.operator("POST", `${path(shop.id)}/credentials/rotate`);
    expect(rotated.body.connection_id).toBe(connection_id);
    for (const { apiKey, connectionId } of customers) {
      const self = await api.client().get("/v1/service/keys/self", {
        headers: { "x-service-api-key": apiKey },
      });
      expect(self.body.connection_id).toBe(connectionId);
      expect(JSON.stringify([rotated.body, await stateOf(shop)])).not.toContain(connectionId);
    }
  });
});
