import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createIsServiceAdministrator } from "../../src/accounts/service_administrators.ts";
import { ConfigError } from "../../src/config.ts";
import { callerChecks } from "../../src/http/authenticate.ts";
import { partNames } from "../../src/installation/installation.ts";
import { type MemberRole, memberRoles, route } from "../../src/route.ts";
import { declaredRoutes } from "../http/walk/documented.ts";
import type { Person } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { errorCode, registerPlatform } from "../support/platform_world.ts";
import { type ServiceApi, startServiceApi } from "../support/service_world.ts";

const PATHS = [
  ...partNames.map((part) => `/v1/service/installation/parts/${part}`),
  "/v1/service/installation/suspended-endpoints",
];

let api: ServiceApi;
let organization: Person;

beforeAll(async () => {
  api = await startServiceApi();
  organization = await api.person({ organization_name: "Engines" });
});
afterAll(() => api.stop());

async function answersOf(person: Pick<Person, "client">, headers: Record<string, string> = {}) {
  const answers = await Promise.all(PATHS.map((path) => person.client.get(path, { headers })));
  return [...new Set(answers.map((answer) => `${answer.status} ${errorCode(answer) ?? "figures"}`))];
}

const forOrganization = () => ({ "x-service-account": organization.accountId });

describe("the operations for service administrators", () => {
  test("answer a service administrator", async () => {
    expect(await answersOf(await api.administrator())).toEqual(["200 figures"]);
  });

  test("do not exist for any other signed-in person", async () => {
    expect(await answersOf(await api.person())).toEqual(["404 not_found"]);
    expect(await answersOf(organization)).toEqual(["404 not_found"]);
  });

  test.each(memberRoles)("do not exist for a member with the role %s in an organization", async (role) => {
    const member = await addMember(api, organization.accountId, role);
    expect(await answersOf(member)).toEqual(["404 not_found"]);
    expect(await answersOf(member, forOrganization())).toEqual(["404 not_found"]);
  });

  test.each<MemberRole>(["owner", "auditor"])(
    "do not exist for a service administrator who acts for an organization as its %s",
    async (role) => {
      const administrator = await api.administrator();
      const header = forOrganization();
      expect(await answersOf(administrator, header)).toEqual(["404 not_found"]);
      await api.db("organization_members").insert({
        organization_id: organization.accountId,
        account_id: administrator.accountId,
        role,
        joined_at: api.clock.now(),
      });
      expect(await answersOf(administrator, header)).toEqual(["404 not_found"]);
      expect(await answersOf(administrator, { "x-service-account": administrator.accountId })).toEqual([
        "200 figures",
      ]);
    },
  );

  test("do not exist for the members of an organization that an administrator's address opened", async () => {
    const opener = await api.administrator();
    await api.db("accounts").where({ account_id: opener.accountId }).update({ account_type: "organization" });
    const member = await addMember(api, opener.accountId, "owner");
    expect(await answersOf(member, { "x-service-account": opener.accountId })).toEqual(["404 not_found"]);
    expect(await answersOf(opener)).toEqual(["200 figures"]);
  });

  test("require a session: an API key or no credentials are not enough", async () => {
    const { apiKey } = await registerPlatform(await api.administrator());
    const nobody = { client: api.client() };
    expect(await answersOf(nobody)).toEqual(["401 auth_required"]);
    expect(await answersOf(nobody, { "x-service-api-key": apiKey })).toEqual(["401 auth_required"]);
  });

  test("return the same response for existing and unknown parts to people who are not administrators", async () => {
    const { client } = await api.person();
    const texts = await Promise.all(
      ["vault", "none"].map((part) => client.get(`/v1/service/installation/parts/${part}`)),
    );
    expect(texts[0]?.text).toBe(texts[1]?.text);
  });
});

describe("GET /v1/auth/session", () => {
  const told = async ({ client }: Person, headers = {}) =>
    (await client.get("/v1/auth/session", { headers })).body.service_administrator;

  test("shows whether the person is a service administrator", async () => {
    expect(await told(await api.administrator())).toBe(true);
    expect(await told(await api.person())).toBe(false);
    expect(await told(organization)).toBe(false);
  });
});

describe("the list of operations", () => {
  test("has all operations for service administrators below /installation, and no other operations there", () => {
    const below = declaredRoutes.filter(({ path }) => path.startsWith("/v1/service/installation/"));
    const theirs = declaredRoutes.filter(({ roles }) => roles === "service_administrator");
    expect(below.map(({ id }) => id)).toEqual(theirs.map(({ id }) => id));
    expect(theirs.length).toBeGreaterThan(1);
  });

  test.each(["account", "public", "api_key", "operator"] as const)(
    "makes the API's start fail if an operation for service administrators has access %s",
    (access) => {
      const odd = route({
        id: "odd",
        method: "GET",
        path: "/v1/service/odd",
        summary: "Odd",
        access,
        roles: "service_administrator",
        answer: { status: 200, schema: {} as never, description: "" },
        errors: [],
        handle: async () => ({ body: undefined }),
      });
      const mount = () => callerChecks(odd, {} as never, {} as never);
      expect(mount).toThrow("a route for service administrators must use sessions");
    },
  );
});

describe("SERVICE_ADMINISTRATORS", () => {
  test("matches addresses in the form in which accounts store them", () => {
    const is = createIsServiceAdministrator(["Ada@EXAMPLE.com", "grace@bücher.example"]);
    expect(["ada@example.com", "grace@xn--bcher-kva.example"].map(is)).toEqual([true, true]);
    expect(["", "ada@example.com.", "xada@example.com", "eve@example.com"].map(is)).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  test("contains nobody by default", () => {
    const is = createIsServiceAdministrator([]);
    expect(["", "undefined", "ada@example.com"].map(is)).toEqual([false, false, false]);
  });

  test.each(["ada", "@example.com", "ada@localhost", "*@example.com", "ada@example.com;eve@example.com"])(
    "makes the API's start fail without quoting the invalid address: %s",
    (address) => {
      const start = () => createIsServiceAdministrator(["ada@example.com", address]);
      expect(start).toThrow(ConfigError);
      expect(start).toThrow(/^(?!.*ada).*SERVICE_ADMINISTRATORS: must be e-mail addresses/s);
    },
  );
});
