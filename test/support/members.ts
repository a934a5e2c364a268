import type { Database } from "../../src/db/database.ts";
import type { MemberRole } from "../../src/route.ts";
import type { Person } from "./api.ts";
import type { SteeredClock } from "./clock.ts";
import type { HttpAnswer } from "./http.ts";

type Api = { db: Database; clock: SteeredClock; person(): Promise<Person> };

/** Makes a person a member of an organization, without an invitation. The person is new unless given. */
export async function addMember(
  api: Api,
  organizationId: string,
  role: MemberRole,
  given?: Person,
): Promise<Person> {
  const person = given ?? (await api.person());
  await api.db("organization_members").insert({
    organization_id: organizationId,
    account_id: person.accountId,
    role,
    joined_at: api.clock.now(),
  });
  return person;
}

export function actingFor({ client }: Person, organizationId: string) {
  const headers = { "x-service-account": organizationId };
  const call = (method: string, path: string, body?: unknown): Promise<HttpAnswer> =>
    client.call(method, path, { headers, ...(body === undefined ? {} : { body }) });
  return {
    get: (path: string) => call("GET", path),
    post: (path: string, body?: unknown) => call("POST", path, body),
    put: (path: string, body: unknown) => call("PUT", path, body),
    patch: (path: string, body: unknown) => call("PATCH", path, body),
    delete: (path: string) => call("DELETE", path),
  };
}
