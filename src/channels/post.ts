import {
  type ClaimedMailing,
  claimPosts,
  recordMailed,
  recordNeedless,
  recordUnmailed,
} from "../accounts/mailings/queue.ts";
import { readSubjects } from "../accounts/mailings/subjects.ts";
import { mailContent, quoted } from "../accounts/mailings/texts.ts";
import type { Clock } from "../clock.ts";
import type { Database } from "../db/database.ts";
import type { ChannelRow } from "../db/event_tables.ts";
import type { Logger } from "../log.ts";
import type { SecretBox } from "../secret_box.ts";
import { resultOf, type Sent } from "../webhooks/retries_and_suspension.ts";
import type { Send } from "../webhooks/sign_and_send.ts";
import { channelUrl, findChannel, recordPost } from "./channel.ts";
import { type Message, messageBody } from "./messages.ts";

/** Dependencies of posts. `send` is the guarded sender of callbacks. */
export type PostDeps = { database: Database; clock: Clock; secretBox: SecretBox; send: Send; log: Logger };

/** Maximum number of channels to which one step posts concurrently. */
const BATCH = 32;

const HEADERS = { "Content-Type": "application/json", "User-Agent": "Deputize-Webhooks/1" };

/**
 * Posts waiting requests to their accounts' channels. All requests of one account go into one message, at the
 * pace of mails. A message that the app rejects is dropped, because people also get mails. It counts toward
 * the pace, so that nobody can use a channel to flood somebody's server. Returns whether any were due.
 */
export async function postToChannels(deps: PostDeps): Promise<boolean> {
  const { database, clock } = deps;
  const claimed = await claimPosts(database, BATCH, clock.now());
  await Promise.all(claimed.map((waiting) => attempt(deps, waiting)));
  return claimed.length > 0;
}

async function attempt(deps: PostDeps, waiting: ClaimedMailing): Promise<void> {
  const { database, clock, log } = deps;
  const channel = await findChannel(database, waiting.account_id);
  const message = channel && (await messageOf(deps, channel, waiting));
  if (channel === undefined || message === undefined) return recordNeedless(database, waiting, clock.now());
  const sent = await post(deps, channel, message);
  await recordPost(database, channel, sent, clock.now());
  const result = resultOf(sent);
  if (result !== "delivered") {
    const { account_id, attempts } = waiting;
    const reason = "status" in sent ? { status: sent.status } : sent;
    log.warn({ account_id, attempts, ...reason }, "a message to a channel was not posted");
  }
  if (result === "failed") await recordUnmailed(database, waiting, clock.now());
  else await recordMailed(database, waiting, clock.now());
}

async function post(
  { secretBox, send, log }: PostDeps,
  channel: ChannelRow,
  message: Message,
): Promise<Sent> {
  let url: string;
  try {
    url = channelUrl(secretBox, channel);
  } catch {
    log.error({ account_id: channel.account_id }, "the URL of a channel cannot be decrypted");
    return { fault: "unprepared", detail: "internal" };
  }
  return send({ url, headers: HEADERS, body: messageBody(channel.app, message) });
}

async function messageOf(
  { database, clock }: PostDeps,
  channel: ChannelRow,
  waiting: ClaimedMailing,
): Promise<Message | undefined> {
  const now = clock.now();
  const { subjects, total } = await readSubjects(database, { ...waiting, kind: "channel" }, now);
  const [first, ...others] = subjects;
  if (first !== undefined) {
    const { button, ...content } = mailContent("request_waits", [first, ...others], { now, total });
    return { ...content, link: { label: button.label, url: `${channel.console_root}${button.path}` } };
  }
  return channel.greeted_at === null ? greeting(database, channel) : undefined;
}

async function greeting(db: Database, { account_id, console_root }: ChannelRow): Promise<Message> {
  const account = await db("accounts").where({ account_id }).first("organization_name");
  const name = account?.organization_name ?? null;
  const path = name === null ? "/console/requests" : `/console/for/${account_id}/requests`;
  return {
    heading: `New requests to act for ${name === null ? "this account" : quoted(name)} will appear here`,
    paragraphs: [
      "An owner connected this channel. Nobody can approve here. Each message links to the request.",
    ],
    items: [],
    after: "",
    link: { label: "Look at the requests", url: `${console_root}${path}` },
  };
}
