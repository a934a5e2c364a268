import { noticeReader } from "../accounts/notices/queue.ts";
import type { Reader } from "../events/published.ts";
import { webhookReader } from "../webhooks/consumer.ts";

/** The consumers of the worker's events: what they are called, and what they read. */
export const readers: readonly Reader[] = [webhookReader, noticeReader];
