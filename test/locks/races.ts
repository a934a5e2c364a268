import { expect } from "vitest";
import type { Person, TestApi } from "../support/api.ts";
import type { HttpAnswer } from "../support/http.ts";
import { errorCode, registerPlatform, type TestPlatform } from "../support/platform_world.ts";
import type { SlowCall } from "../support/surroundings/slow_servers.ts";

/** An SQL statement and its values. */
export type Sql = [text: string, ...values: unknown[]];

/** A call that waits for a row, and the change that the holder of this row commits meanwhile. */
export type Race = {
  /** Locks the row, in the weakest mode for which the call must wait. */
  holds: Sql;
  /** The competing change. Without it, only the wait is checked. */
  meanwhile?: Sql;
  call(): Promise<HttpAnswer>;
  /** How often the call is made concurrently. Default: once. */
  times?: number;
  /** The row is locked while the call waits for this call to another server. Default: before the call. */
  waitsFor?: SlowCall;
  /** Checks what the calls returned and stored. */
  check?(answers: HttpAnswer[]): Promise<void> | void;
};

/** Returns an answer's status, with the error code of a refusal. */
export const shown = (answer: HttpAnswer) =>
  [answer.status, errorCode(answer)].filter((part) => part).join(" ");

/** `gets` are the sorted statuses, with the error codes of refusals, after the row is free. */
export type RaceRow = { title: string; gets: string[]; prepare(api: TestApi): Promise<Race> };

/** A call to the API, and the change that is committed while it waits for another server. */
export type SlowOperation = {
  call(): Promise<HttpAnswer>;
  meanwhile(): Promise<unknown>;
  /** Reads what the operation must not have stored. */
  stored(): Promise<unknown[]>;
};

/** `gets` is the status with the error code. */
export type SecondLook = {
  operation: string;
  waitsFor: SlowCall;
  title: string;
  gets: string;
  prepare(api: TestApi): Promise<SlowOperation>;
};

export const CONNECTIONS = "/v1/service/connections";
export const ORGANIZATION = "/v1/service/organization";
export const NOT_FOUND = ["404 not_found"];

export type Owned = { person: Person; platform: TestPlatform };
export const lockConnection = ({ platform }: Owned): Sql => [
  "select from connections where connection_id = $1 for share",
  platform.connectionId,
];
export const removeConnection = ({ platform }: Owned): Sql => [
  `with removed as (update connections set removed_at = now() where connection_id = $1 returning platform_id)
   update platforms p set removed_at = now() from removed r where p.platform_id = r.platform_id`,
  platform.connectionId,
];
export const lockAccount = (accountId: string): Sql => [
  "select from accounts where account_id = $1 for share",
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
    check = async () => {},
  }: {
    gets?: string[];
    before?(own: Owned): Promise<unknown>;
    check?(own: Owned, api: TestApi): Promise<void>;
  } = {},
): RaceRow[] {
  return [
    {
      title: "whose connection is removed",
      gets,
      async prepare(api) {
        const own = await owned(api);
        await before(own);
        return {
          holds: lockConnection(own),
          meanwhile: removeConnection(own),
          call: () => call(own, api),
          check: () => check(own, api),
        };
      },
    },
  ];
}

/** Expects that the call did not report a change that another transaction had made. */
export async function expectNoEvent(api: TestApi, { platform }: Owned, type: string): Promise<void> {
  const events = await api.events(platform.connectionId);
  expect(events.filter(({ event }) => event === type)).toEqual([]);
}

export const keyed = (api: TestApi, { platform }: Owned, method: string, path: string, body?: unknown) =>
  api.client().call(method, path, { body, headers: { "x-service-api-key": platform.apiKey }, csrf: false });
export const pathOf = ({ platform }: Owned, suffix: string) =>
  `${CONNECTIONS}/${platform.connectionId}${suffix}`;
