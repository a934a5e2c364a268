import { expect, test } from "vitest";
import { declaredRoutes } from "./documented.ts";

test("every call that can end or narrow authority or access has the limit of such calls", () => {
  const ending = declaredRoutes.filter(({ ends }) => ends).map(({ id }) => id);
  expect(ending).toEqual(
    expect.arrayContaining([
      ...["revoke_delegation", "deny_delegation_request", "logout", "end_session", "leave_organization"],
      ...["change_organization_member", "unpublish_platform", "change_platform", "change_connection"],
      ...["replace_accepted_principals", "rotate_api_key", "end_former_api_keys", "pause_callback"],
      ...["promote_webhook_secret", "rotate_signing_secret", "rotate_customer_key"],
    ]),
  );
  expect(ending.filter((id) => /^(approve|accept|register|request|link|publish|invite)_/.test(id))).toEqual(
    [],
  );
});

test("only two calls that are no GET count as reading", () => {
  const reading = declaredRoutes.filter(({ reads }) => reads);
  expect(reading.map(({ id }) => id)).toEqual(["oauth_push_request", "check_receipt"]);
  expect(reading.filter(({ ends, method }) => ends || method === "GET")).toEqual([]);
});
