import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectScene, type Product } from "../../connect/scene.ts";
import { type Person, startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf } from "../support/console.ts";

let api: TestApi;
let scene: ReturnType<typeof connectScene>;
let shop: Product;
beforeAll(async () => {
  api = await startApi();
  scene = connectScene(api);
  shop = await scene.product();
});
afterAll(() => api.stop());

async function team() {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  const start = `/console/for/${owner.accountId}`;
  const [developer, approver] = [
    await addMember(api, owner.accountId, "developer"),
    await addMember(api, owner.accountId, "approver"),
  ];
  /** Opens a page for the organization as one of its members. */
  const open = ({ client }: Person, path: string) => browserOf(api, client).open(`${start}${path}`);
  async function asked(person: Person) {
    const { verifier, requestId } = await scene.begun(shop);
    return { verifier, page: await open(person, `/connect/${requestId}`) };
  }
  /** Opens the page of the only proposal. */
  async function proposed(person: Person) {
    const list = await open(person, "/proposals");
    const path = list.element("link", /href="[^"]*\/console\/for\/[^/]*(\/proposals\/[^"]+)"/);
    return open(person, path);
  }
  return { owner, developer, approver, open, asked, proposed };
}

describe("a developer", () => {
  test("proposes a product, and connects it with one click after an approver has read and approved it", async () => {
    const { developer, approver, asked, proposed } = await team();
    const { page } = await asked(developer);
    expect(page.words).toContain("You can propose this one");
    expect(page.text).not.toContain('name="form" value="connect"');
    const back = new URL((await page.send("propose", { scopes: ["data:read", "data:share"] })).path);
    expect(Object.fromEntries(back.searchParams)).toMatchObject({ error: "access_denied", state: "xyz" });

    const read = await proposed(approver);
    for (const word of [`✓ ${shop.domain}`, "Shop Works", developer.email, `https://${shop.domain}`]) {
      expect(read.words).toContain(word);
    }
    const after = await read.send("approve", { scopes: ["data:read"] });
    expect(after.words).toContain("Approved. A developer can connect it now.");
    expect(after.words).toContain(`approved ${developer.email}`);

    const { verifier, page: again } = await asked(developer);
    expect(again.words).toContain(`${approver.email} approved this product for you`);
    const code = new URL((await again.send("connect")).path).searchParams.get("code") ?? "";
    const { status, body } = await scene.exchange(shop, { code, verifier });
    expect([status, body.scope]).toEqual([200, "data:read"]);
    const product = await browserOf(api, developer.client).open(
      `/console/for/${body.org_id}/products/${body.connection_id}`,
    );
    expect(product.words).toContain(`${approver.email} had approved it on`);
  });

  test("reads the name of an existing connection, and cannot change it", async () => {
    const { developer, owner, asked, proposed } = await team();
    await (await asked(developer)).page.send("propose", { scopes: ["data:read"] });
    await (await proposed(owner)).send("approve");
    expect((await asked(developer)).page.text).toContain('name="shown_name"');
    const { verifier, page } = await asked(owner);
    const fields = { scopes: ["data:read"], shown_name: "Engines" };
    const code = new URL((await page.send("connect", fields)).path).searchParams.get("code") ?? "";
    await scene.exchange(shop, { code, verifier });
    const { page: again } = await asked(developer);
    expect(again.words).toContain("Name that the publisher sees: Engines");
    expect(again.text).not.toContain('name="shown_name"');
    expect((await asked(owner)).page.text).toContain('value="Engines"');
  });

  test("proposes more scopes on the page that connects the approved ones", async () => {
    const { developer, owner, asked, proposed } = await team();
    await (await asked(developer)).page.send("propose", { scopes: ["data:read"] });
    await (await proposed(owner)).send("approve");
    const { page } = await asked(developer);
    expect(page.words).toContain("Propose more than was approved");
    const back = new URL((await page.send("propose", { scopes: ["data:share"] })).path);
    expect(back.searchParams.get("error")).toBe("access_denied");
  });

  test("sees proposals without being asked to decide", async () => {
    const { developer, asked, proposed } = await team();
    await (await asked(developer)).page.send("propose", { scopes: ["data:read"] });
    const page = await proposed(developer);
    expect(page.words).toContain("Only those who may connect products");
    expect(page.text).not.toMatch(/name="form" value="(approve|end)"/);
  });
});

test("an approver proposes where only owners connect, and cannot approve", async () => {
  const { owner, approver, asked, proposed } = await team();
  await owner.client.call("PATCH", "/v1/service/organization", { body: { connecting: "owners" } });
  const { page } = await asked(approver);
  await page.send("propose", { scopes: ["data:read"] });
  expect((await proposed(approver)).text).not.toContain('name="form" value="approve"');
  expect((await (await proposed(owner)).send("approve")).words).toContain("Approved.");
});

test("an owner declines a proposal, and ends an approval", async () => {
  const { owner, developer, open, asked, proposed } = await team();
  for (const first of ["end", "approve"]) {
    await (await asked(developer)).page.send("propose", { scopes: ["data:read"] });
    await (await proposed(owner)).send(first);
  }
  expect((await (await proposed(owner)).send("end")).words).toContain("Declined or ended.");
  expect((await open(owner, "/proposals")).words).toContain("No product is proposed or approved.");
});
