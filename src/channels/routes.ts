import { z } from "zod";
import { requireOwner } from "../accounts/member_role.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import { type ChannelApp, type ChannelRow, channelApps } from "../db/event_tables.ts";
import type { SendingRates } from "../deliveries/sending_limits.ts";
import { ApiError } from "../errors.ts";
import { isoTime } from "../input/schemas.ts";
import { checkCallbackUrl } from "../platforms/change_platform.ts";
import { type Route, route } from "../route.ts";
import type { SecretBox } from "../secret_box.ts";
import type { AddressPolicy } from "../webhooks/callback_address.ts";
import { findChannel, removeChannel, setChannel } from "./channel.ts";

/** Dependencies of the operations on channels. `root` is the base URL without a final slash. */
export type ChannelDeps = {
  db: Database;
  clock: Clock;
  secretBox: SecretBox;
  callbacks: AddressPolicy;
  sendingRates: Pick<SendingRates, "takeChannel">;
  root: string;
};

const path = "/v1/service/request-channel";

const shown = z.object({
  app: z.enum(channelApps),
  host: z.string().describe("The host of the URL, whose rest is a secret"),
  set_by: z.string().nullable().describe("The owner's e-mail address; null after the owner has left"),
  set_at: isoTime,
  posted_at: isoTime.nullable().describe("When the app last accepted a message"),
  fault: z
    .string()
    .nullable()
    .describe("Why the last message was not posted, such as `status 404` or `dns`; null if it was"),
});

/** A channel, as the API returns it. */
export type ChannelAnswer = z.infer<typeof shown>;

/** Returns the operations with which owners have requests sent to a Slack or Microsoft Teams channel. */
export function channelRoutes(deps: ChannelDeps): Route[] {
  return [getRoute(deps), setRoute(deps), removeRoute(deps)];
}

function getRoute({ db }: ChannelDeps): Route {
  return route({
    id: "get_request_channel",
    method: "GET",
    path,
    summary: "See which channel gets the account's requests",
    access: "session",
    roles: ["approver", "auditor"],
    answer: { status: 200, schema: shown, description: "The channel, without its URL" },
    errors: ["not_found"],
    handle: async ({ caller }) => ({ body: await show(db, caller.accountId) }),
  });
}

function setRoute(deps: ChannelDeps): Route {
  return route({
    id: "set_request_channel",
    method: "PUT",
    path,
    summary: "Send new requests to a Slack or Microsoft Teams channel too",
    access: "session",
    idempotent: true,
    body: z.object({
      app: z.enum(channelApps),
      url: z.string().max(2048).describe("The URL of an incoming webhook, which the app creates"),
    }),
    activityDetails: ({ app, url }) => ({ app, host: URL.parse(url)?.host ?? "" }),
    answer: { status: 200, schema: shown, description: "The channel; it gets a first message now" },
    errors: ["invalid_callback_url"],
    async handle({ caller: { accountId, person }, body }) {
      return { body: await change(deps, { accountId, by: person.accountId }, body) };
    },
  });
}

function removeRoute({ db }: ChannelDeps): Route {
  return route({
    id: "remove_request_channel",
    method: "DELETE",
    path,
    summary: "Stop sending requests to the channel",
    access: "session",
    idempotent: true,
    answer: {
      status: 200,
      schema: z.object({ removed: z.literal(true) }),
      description: "The channel gets no further messages",
    },
    errors: ["not_found"],
    async handle({ caller: { accountId, person } }) {
      const removed = await db.transaction(async (tx) => {
        await requireOwner(tx, accountId, person.accountId);
        return removeChannel(tx, accountId);
      });
      if (!removed) throw new ApiError("not_found");
      return { body: { removed: true as const } };
    },
  });
}

async function change(
  { db, clock, secretBox, callbacks, sendingRates, root }: ChannelDeps,
  { accountId, by }: { accountId: string; by: string },
  { app, url }: { app: ChannelApp; url: string },
): Promise<ChannelAnswer> {
  checkCallbackUrl(url, callbacks, "url");
  await sendingRates.takeChannel(accountId);
  return db.transaction(async (tx) => {
    await requireOwner(tx, accountId, by);
    const channel = { accountId, app, url: new URL(url), setBy: by, root };
    await setChannel(tx, secretBox, channel, clock.now());
    return show(tx, accountId);
  });
}

async function show(db: Database, accountId: string): Promise<ChannelAnswer> {
  const channel = await findChannel(db, accountId);
  if (channel === undefined) throw new ApiError("not_found");
  const setter = await db("accounts").where({ account_id: channel.set_by }).first("email");
  return answerOf(channel, setter?.email ?? null);
}

function answerOf({ app, host, set_at, posted_at, fault }: ChannelRow, setBy: string | null): ChannelAnswer {
  return {
    app,
    host,
    set_by: setBy,
    set_at: set_at.toISOString(),
    posted_at: posted_at?.toISOString() ?? null,
    fault,
  };
}
