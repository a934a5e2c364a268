import { noticeReader } from "../accounts/notices/queue.ts";
import type { Reader } from "../events/published.ts";
import { webhookReader } from "../webhooks/consumer.ts";

/** The worker's event consumers, and the events that each consumer reads. */
export const readers: readonly Reader[] = [webhookReader, noticeReader];
