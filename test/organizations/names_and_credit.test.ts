import { expect, test } from "vitest";
import type { MemberRole } from "../../src/route.ts";
import { wholeApi } from "../http/walk/world.ts";
import { actingFor, addMember } from "../support/members.ts";
import { errorCode } from "../support/platform_world.ts";

const api = wholeApi();
const ORGANIZATION = "/v1/service/organization";

async function withMember(role: MemberRole) {
  const owner = await api.person({ organization_name: "Analytical Engines" });
  const id = owner.accountId;
  const member = await addMember(api, id, role);
  return { owner, id, member, acting: actingFor(member, id) };
}

test.each([
  [2_000_001, "enough"],
  [2_000_000, "low"],
  [2_000, "low"],
  [1_999, "exhausted"],
])("a member sees the credit level of each account: %d micro-dollars are %s", async (balance, level) => {
  const { id, member } = await withMember("auditor");
  await api
    .db("balances")
    .where({ account_id: id })
    .update({ balance_micro_usd: balance, low_at_micro_usd: 2_000_000 });
  const { body } = await member.client.get("/v1/auth/session");
  expect(body.accounts).toMatchObject([{ credit: "enough" }, { credit: level }]);
});

test("an owner renames the organization for everyone, and the activity list shows it", async () => {
  const { owner, acting } = await withMember("approver");
  const rename = (body: unknown) => owner.client.call("PATCH", ORGANIZATION, { body });
  const renamed = await rename({ organization_name: " Difference Engines " });
  expect(renamed.body).toMatchObject({ organization_name: "Difference Engines", four_eyes: false });
  expect((await acting.get(ORGANIZATION)).body.organization_name).toBe("Difference Engines");
  expect(errorCode(await rename({}))).toBe("invalid_request");
  expect(errorCode(await rename({ organization_name: "a\u202eb" }))).toBe("invalid_request");
  expect(errorCode(await acting.patch(ORGANIZATION, { organization_name: "Mine" }))).toBe("forbidden");
  const { body } = await owner.client.get(`${ORGANIZATION}/activity`);
  expect(body.items).toMatchObject([
    { operation: "change_organization", target: { organization_name: "Difference Engines" } },
  ]);
});
