import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type MemberRole, memberRoles } from "../../src/route.ts";
import { credentialsOf, draftOf, errorOf, send } from "../http/walk/call.ts";
import { contract } from "../http/walk/documented.ts";
import { fingerprintOf } from "../http/walk/fingerprint.ts";
import { type Scene, setScene } from "../http/walk/scene.ts";
import { startWholeApi } from "../http/walk/world.ts";
import type { Person, TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { documentedRows } from "./role_table.ts";

let api: TestApi;

beforeAll(async () => {
  api = await startWholeApi();
});
afterAll(() => api.stop());

async function callAs(operationId: string, person: Person, scene: Scene): Promise<string> {
  const operation = contract.operation(operationId);
  const bySession = operation.security.findIndex((way) => "session" in way);
  const headers = credentialsOf(operation, { ...scene, person }, bySession);
  const draft = draftOf(operation, scene);
  const answer = await send(api.url, draft, [...headers, ["x-service-account", scene.person.accountId]]);
  expect(contract.violations(operation, answer)).toEqual([]);
  if (answer.text.includes("You are not a member")) return "no member";
  return errorOf(answer);
}

describe.each(documentedRows().map((row) => [row.operation, row.roles] as const))(
  "operation %s",
  (operation, roles) => {
    const mayCall = (role: MemberRole) => roles === "person" || roles.includes(role);

    test("refuses other roles, outsiders and former members, and changes nothing", async () => {
      const scene = await setScene(api, { organization: true });
      const { accountId } = scene.person;
      const refused = memberRoles.filter((role) => !mayCall(role));
      const people = await Promise.all(refused.map((role) => addMember(api, accountId, role)));
      const stranger = await api.person();
      const former = await addMember(api, accountId, "owner");
      await api.db("organization_members").where({ account_id: former.accountId }).delete();
      const before = await fingerprintOf(api.db);
      for (const person of people) expect(await callAs(operation, person, scene)).toBe("403 forbidden");
      expect(await callAs(operation, stranger, scene)).toBe("no member");
      expect(await callAs(operation, former, scene)).toBe("no member");
      expect(await fingerprintOf(api.db)).toEqual(before);
    });

    test.each(memberRoles.filter(mayCall))("accepts a call by role %s", async (role) => {
      const scene = await setScene(api, { organization: true });
      const person = await addMember(api, scene.person.accountId, role);
      expect(await callAs(operation, person, scene)).not.toMatch(/^401|forbidden|no member|csrf/);
    });
  },
);
