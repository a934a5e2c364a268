import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { registerPlatform, type TestPlatform } from "../support/platform_world.ts";

/** An SQL statement and its values. */
export type Sql = [text: string, ...values: unknown[]];

/** A call that waits for a row, and the change that the holder of this row commits meanwhile. */
export type Race = {
  /** Locks the row as the competing change does. */
  holds: Sql;
  /** The competing change. Without it, only the wait is checked. */
  meanwhile?: Sql;
  call(): Promise<HttpAnswer>;
  /** How often the call is made concurrently. Default: once. */
  times?: number;
};

/** `gets` are the sorted statuses, with the error codes of refusals, after the row is free. */
export type RaceRow = { title: string; gets: string[]; prepare(api: TestApi): Promise<Race> };

export const CONNECTIONS = "/v1/service/connections";
export const ORGANIZATION = "/v1/service/organization";
export const NOT_FOUND = ["404 not_found"];

export type Owned = { person: Person; platform: TestPlatform };
export const lockConnection = ({ platform }: Owned): Sql => [
  "select from connections where connection_id = $1 for no key update",
  platform.connectionId,
];
export const removeConnection = ({ platform }: Owned): Sql => [
  `with removed as (update connections set removed_at = now() where connection_id = $1 returning platform_id)
   update platforms p set removed_at = now() from removed r where p.platform_id = r.platform_id`,
  platform.connectionId,
];
export const lockAccount = (accountId: string): Sql => [
  "select from accounts where account_id = $1 for no key update",
  accountId,
];

export async function owned(api: TestApi): Promise<Owned> {
  const person = await api.person();
  return {
    person,
    platform: await registerPlatform(person, { callback_url: "https://shop.example.com/hook" }),
  };
}

/** A call about a platform whose connection is removed while the call waits. */
export function ofConnection(
  call: (owned: Owned, api: TestApi) => Promise<HttpAnswer>,
  {
    gets = NOT_FOUND,
    before = async () => {},
  }: { gets?: string[]; before?(own: Owned): Promise<unknown> } = {},
): RaceRow[] {
  return [
    {
      title: "whose connection is removed",
      gets,
      async prepare(api) {
        const own = await owned(api);
        await before(own);
        return { holds: lockConnection(own), meanwhile: removeConnection(own), call: () => call(own, api) };
      },
    },
  ];
}

export const keyed = (api: TestApi, { platform }: Owned, method: string, path: string, body?: unknown) =>
  api.client().call(method, path, { body, headers: { "x-service-api-key": platform.apiKey }, csrf: false });
export const pathOf = ({ platform }: Owned, suffix: string) =>
  `${CONNECTIONS}/${platform.connectionId}${suffix}`;
