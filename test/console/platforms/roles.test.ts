import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MemberRole } from "../../../src/route.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import { addMember } from "../../support/members.ts";
import { browserOf, formIn, type Shown } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";
import { platformViewer } from "./platform_viewer.ts";

let api: TestApi;
let owner: Seen;
beforeAll(async () => {
  api = await startApi();
  owner = await platformViewer(api);
});
afterAll(() => api.stop());

const paths = ({ ids }: Seen): [string, string][] => [
  ["platforms", "/platforms"],
  ["platform", `/platforms/${ids.platform}`],
  ["change", `/platforms/${ids.platform}/change`],
  ["secret", `/platforms/${ids.platform}/signing-secret`],
  ["accepted", `/platforms/${ids.platform}/accepted`],
  ["adoption", `/platforms/${ids.platform}/adoption`],
  ["connection", `/connections/${ids.connection}`],
  ["rotate", `/connections/${ids.connection}/rotate-key`],
  ["settings", `/connections/${ids.connection}/change`],
  ["remove", `/connections/${ids.connection}/remove`],
  ["clusters", "/clusters"],
  ["namespace", "/clusters/c1/team-a"],
];

/** Returns a page's forms without the form that signs out. */
function formsOn({ text }: Shown): string[] {
  const names = [...text.matchAll(/name="form" value="(\w+)"/g)].map(([, name = ""]) => name);
  return names.filter((name) => name !== "sign_out");
}

async function memberOf(role: MemberRole) {
  const { client } = await addMember(api, owner.ids.account ?? "", role);
  const browser = browserOf(api, client);
  const open = (path: string) => browser.open(`/console/for/${owner.ids.account}${path}`);
  const offered = async () => {
    const entries = paths(owner).map(async ([name, path]) => {
      const shown = await open(path);
      expect([name, shown.status]).toEqual([name, 200]);
      return [name, formsOn(shown)] as const;
    });
    return Object.fromEntries((await Promise.all(entries)).filter(([, forms]) => forms.length > 0));
  };
  return { client, open, offered };
}

const developers = {
  change: ["change"],
  secret: ["rotate"],
  connection: ["end_former", "create_key", "end_key"],
  rotate: ["rotate"],
  settings: ["change"],
  remove: ["remove"],
};

describe("the pages about platforms", () => {
  test.each<[MemberRole, Record<string, string[]>]>([
    [
      "owner",
      {
        ...developers,
        platform: ["publish"],
        accepted: ["accept", "end"],
        adoption: ["withdraw", "confirm"],
        clusters: ["open", "link", "unlink"],
        namespace: ["accept"],
      },
    ],
    ["developer", developers],
    ["approver", { accepted: ["end"] }],
    ["auditor", {}],
  ])("offer the role %s only what the role allows", async (role, expected) => {
    const { open, offered } = await memberOf(role);
    expect(await offered()).toEqual(expected);
    const mayMake = role === "owner" || role === "developer";
    const list = await open("/platforms");
    expect(list.text.includes(`/console/for/${owner.ids.account}/platforms/new"`)).toBe(mayMake);
    const connection = await open(`/connections/${owner.ids.connection}`);
    expect(/\/(rotate-key|remove|change)"/.test(connection.text)).toBe(mayMake);
  });
});

test("a form that is sent although the role does not allow it is refused, and changes nothing", async () => {
  const { client, open } = await memberOf("auditor");
  const { fields } = formIn(
    await owner.open(`/console/connections/${owner.ids.connection}/rotate-key`),
    "rotate",
  );
  const path = `/console/for/${owner.ids.account}/connections/${owner.ids.connection}/rotate-key`;
  const { csrf = "", person = "" } = formIn(await open("/platforms"), "sign_out").fields;
  const answer = await client.call("POST", path, {
    body: new URLSearchParams({ ...fields, csrf, person }).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded", origin: "http://127.0.0.1" },
    csrf: false,
  });
  expect(answer.status).toBe(403);
  expect(answer.text).not.toMatch(/dpz_\w{8}_\w{43}/);
  const { body } = await owner.client.get(`/v1/service/connections/${owner.ids.connection}`);
  expect(body.api_keys).toHaveLength(2);
});
