import type { Database, Transaction } from "../db/database.ts";
import type { ChannelApp, ChannelRow } from "../db/event_tables.ts";
import type { SecretBox } from "../secret_box.ts";
import { resultOf, type Sent } from "../webhooks/retries_and_suspension.ts";

/** Returns the encryption context that binds `request_channels.url_sealed` to its row. */
function urlContext(accountId: string): string {
  return `request_channels.url:${accountId}`;
}

/** A new channel. `url` is a secret: whoever has it can post to the channel. */
export type NewChannel = { accountId: string; app: ChannelApp; url: URL; setBy: string; root: string };

/**
 * Stores an account's channel in place of its former one, and lets the worker post a first message. Waiting
 * requests remain.
 */
export async function setChannel(
  tx: Transaction,
  secretBox: SecretBox,
  { accountId, app, url, setBy, root }: NewChannel,
  now: Date,
): Promise<void> {
  const channel = {
    app,
    url_sealed: secretBox.box(url.href, urlContext(accountId)),
    host: url.host,
    console_root: root,
    set_by: setBy,
    set_at: now,
    greeted_at: null,
    posted_at: null,
    fault: null,
  };
  await tx("request_channels")
    .insert({ account_id: accountId, ...channel })
    .onConflict("account_id")
    .merge(channel);
  const due = { due_at: now, next_attempt_at: now, attempts: 0 };
  await tx("mailing_queues")
    .insert({ person_id: accountId, account_id: accountId, kind: "channel", ...due })
    .onConflict(["person_id", "kind", "account_id"])
    .merge(due);
}

/** Removes an account's channel and the requests that wait for it. Returns whether there was one. */
export async function removeChannel(tx: Transaction, accountId: string): Promise<boolean> {
  const removed = await tx("request_channels").where({ account_id: accountId }).delete();
  await tx("mailing_queues").where({ account_id: accountId, kind: "channel" }).delete();
  return removed > 0;
}

/** Returns an account's channel, or `undefined` if it has none. */
export function findChannel(db: Database, accountId: string): Promise<ChannelRow | undefined> {
  return db("request_channels").where({ account_id: accountId }).first();
}

/** Returns the URL to which messages are posted. Throws if it cannot be decrypted. */
export function channelUrl(secretBox: SecretBox, { account_id, url_sealed }: ChannelRow): string {
  return secretBox.unbox(url_sealed, urlContext(account_id));
}

/** Records the result of a post, unless somebody replaced or removed the channel in the meantime. */
export async function recordPost(db: Database, channel: ChannelRow, sent: Sent, now: Date): Promise<void> {
  const { account_id, url_sealed } = channel;
  const state =
    resultOf(sent) === "delivered"
      ? { posted_at: now, greeted_at: channel.greeted_at ?? now, fault: null }
      : { fault: "status" in sent ? `status ${sent.status}` : sent.fault };
  await db("request_channels").where({ account_id, url_sealed }).update(state);
}
