import { describe, expect } from "vitest";
import { until } from "../support/process.ts";
import { tenants } from "./folder/folders.ts";
import { only, platform, folderTest as test } from "./operator_folder.ts";

const SHOP = "https://shop.example.test/connected";
const ELSEWHERE = "https://elsewhere.example.test/";

describe.concurrent("platforms in a folder to which customers connect", () => {
  test("send their redirect URIs, and remove those that are no longer declared", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const sent = () => only(world.api.platforms).redirect_uris;
    const status = async () => (await world.state("Platform", "shop")).status;
    const declare = (spec: object) => world.folders.write("platform.yaml", platform(spec));
    await declare({ redirectURIs: [SHOP, ELSEWHERE] });
    await until("they are in the status", async () => (await status())?.redirectURIs !== undefined);
    expect([sent(), (await status())?.redirectURIs]).toEqual([
      [SHOP, ELSEWHERE],
      [SHOP, ELSEWHERE],
    ]);
    await declare({});
    await until("they are removed", () => sent().length === 0);
    await until("the status has none", async () => (await status())?.redirectURIs === undefined);
  });

  test("keep redirect URIs that were set elsewhere, unless they declare an empty list", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const registered = only(world.api.platforms);
    registered.redirect_uris = [ELSEWHERE];
    await world.folders.write("platform.yaml", platform({ displayName: "New" }));
    await until("the name has changed", () => registered.desired.name === "New");
    expect(registered.desired).not.toHaveProperty("redirect_uris");
    expect(registered.redirect_uris).toEqual([ELSEWHERE]);
    await world.folders.write("platform.yaml", platform({ redirectURIs: [] }));
    await until("they are removed", () => registered.redirect_uris.length === 0);
    expect((await world.state("Platform", "shop")).status).not.toHaveProperty("redirectURIs");
  });

  test("keep the last accepted redirect URIs in the status while others are refused", async ({ world }) => {
    await world.folders.write("all.yaml", tenants(), platform({ redirectURIs: [SHOP] }));
    await world.start();
    await world.reaches("Platform", "shop", "Active");
    world.api.fail("PUT /internal/v1/platforms", "invalid_redirect_uri");
    await world.folders.write("all.yaml", tenants(), platform({ redirectURIs: [ELSEWHERE] }));
    const { status } = await world.reaches("Platform", "shop", "InvalidSpec");
    expect(status?.redirectURIs).toEqual([SHOP]);
  });

  test("show whether they are published, and how many customers they have", async ({ world }) => {
    await world.start();
    await world.declareAgent();
    const shown = async () => {
      const { publishState, customers } = (await world.state("Platform", "shop")).status ?? {};
      return [publishState, customers];
    };
    expect(await shown()).toEqual(["draft", 0]);
    Object.assign(only(world.api.platforms), { publish_state: "published", customers: 12 });
    const asked = { annotations: { "deputize.io/reconcile-at": "now" } };
    await world.folders.write("platform.yaml", platform({}, asked));
    await until("the customers are shown", async () => (await shown())[1] === 12);
    expect(await shown()).toEqual(["published", 12]);
  });
});
