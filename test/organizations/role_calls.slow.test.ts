import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type MemberRole, memberRoles } from "../../src/route.ts";
import { credentialsOf, draftOf, errorOf, send } from "../http/walk/call.ts";
import { contract } from "../http/walk/documented.ts";
import { fingerprintOf } from "../http/walk/fingerprint.ts";
import { type Scene, shareScenes, spends, type TakeScene } from "../http/walk/scene.ts";
import { startWholeApi } from "../http/walk/world.ts";
import type { Person, TestApi } from "../support/api.ts";
import { addMember } from "../support/members.ts";
import { documentedRows } from "./role_table.ts";

/** The members of a scene's organization by role, a former owner, and a person who never was a member. */
type Cast = Record<MemberRole | "former" | "stranger", Person>;

let api: TestApi;
let takeScene: TakeScene;
const casts = new WeakMap<Scene, Promise<Cast>>();

beforeAll(async () => {
  api = await startWholeApi();
  takeScene = shareScenes(api);
});
afterAll(() => api.stop());

async function createCast({ person: { accountId } }: Scene): Promise<Cast> {
  const members = memberRoles.map(async (role) => [role, await addMember(api, accountId, role)]);
  const former = await addMember(api, accountId, "owner");
  await api.db("organization_members").where({ account_id: former.accountId }).delete();
  return { ...Object.fromEntries(await Promise.all(members)), former, stranger: await api.person() };
}

function castOf(scene: Scene): Promise<Cast> {
  const cast = casts.get(scene) ?? createCast(scene);
  casts.set(scene, cast);
  return cast;
}

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

    const isSpent = spends(contract.operation(operation));

    test("refuses other roles, outsiders and former members, and changes nothing", async () => {
      const scene = await takeScene({ isSpent: false });
      const cast = await castOf(scene);
      const before = await fingerprintOf(api.db);
      for (const role of memberRoles.filter((one) => !mayCall(one))) {
        expect(await callAs(operation, cast[role], scene)).toBe("403 forbidden");
      }
      expect(await callAs(operation, cast.stranger, scene)).toBe("no member");
      expect(await callAs(operation, cast.former, scene)).toBe("no member");
      expect(await fingerprintOf(api.db)).toEqual(before);
    });

    test.each(memberRoles.filter(mayCall))("accepts a call by role %s", async (role) => {
      const scene = await takeScene({ isSpent });
      const person = isSpent
        ? await addMember(api, scene.person.accountId, role)
        : (await castOf(scene))[role];
      expect(await callAs(operation, person, scene)).not.toMatch(/^401|forbidden|no member|csrf/);
    });
  },
);
