import { noticeReader } from "../accounts/notices/queue.ts";
import type { Reader } from "../events/published.ts";
import { webhookReader } from "../webhooks/consumer.ts";

/** The names of the worker's event consumers, and the events that they read. */
export const readers: readonly Reader[] = [webhookReader, noticeReader];
