import type { IHeaders, KafkaMessage, Message } from "kafkajs";
import { z } from "zod";
import type { BusEvent } from "../bus.ts";

/** The version of CloudEvents. */
export const SPECVERSION = "1.0";
/** The value of `ce_source`: the system that reports the event. */
export const SOURCE = "/deputize";

/** The maximum length of these header values, which no value that the service writes exceeds. */
const LONGEST = 200;
const text = z.string().max(LONGEST);

const headers = z.object({
  ce_specversion: z.literal(SPECVERSION),
  // The inbox stores ids in lower case.
  ce_id: z.uuid().toLowerCase(),
  ce_type: text.min(1),
  ce_subject: text.min(1),
  ce_time: z.iso.datetime(),
  ce_sequence: z.coerce.number().int().positive(),
  ce_schemaversion: z.coerce.number().int().positive(),
  ce_aggregatetype: text.min(1),
  traceparent: text.optional(),
});

/** The record is not a valid event. The message says why. */
export class UnreadableRecord extends Error {
  override name = "UnreadableRecord";
}

/** An event that becomes a record. Events of the history have no sequence number. */
export type RecordedEvent = Omit<BusEvent, "aggregateSeq"> & Partial<Pick<BusEvent, "aggregateSeq">>;

/** Converts an event to a record: CloudEvents 1.0 in binary mode, with the aggregate's id as its key. */
export function toRecord(event: RecordedEvent): Message & { key: string; headers: IHeaders } {
  const { traceparent } = event.headers;
  return {
    key: event.aggregateId,
    value: event.payload,
    timestamp: String(event.createdAt.getTime()),
    headers: {
      ce_specversion: SPECVERSION,
      ce_id: event.eventId,
      ce_source: SOURCE,
      ce_type: event.type,
      ce_subject: event.aggregateId,
      ce_time: event.createdAt.toISOString(),
      ...(event.aggregateSeq !== undefined && { ce_sequence: String(event.aggregateSeq) }),
      ce_schemaversion: String(event.schemaVersion),
      ce_aggregatetype: event.aggregateType,
      "content-type": "application/json",
      ...(traceparent !== undefined && { traceparent }),
    },
  };
}

/** Converts a record to an event. Throws `UnreadableRecord` if it is not a valid event. */
export function readRecord({ value, headers: raw = {} }: Pick<KafkaMessage, "value" | "headers">): BusEvent {
  const texts = Object.entries(raw).map(([name, text]) => [name, Array.isArray(text) ? text[0] : text]);
  const read = headers.safeParse(Object.fromEntries(texts.map(([name, text]) => [name, String(text)])));
  if (!read.success) {
    throw new UnreadableRecord(
      read.error.issues.map(({ path, message }) => `${path}: ${message}`).join("; "),
    );
  }
  if (value === null) throw new UnreadableRecord("The record has no value");
  const { data } = read;
  return {
    eventId: data.ce_id,
    type: data.ce_type,
    aggregateType: data.ce_aggregatetype,
    aggregateId: data.ce_subject,
    aggregateSeq: data.ce_sequence,
    schemaVersion: data.ce_schemaversion,
    payload: value.toString("utf8"),
    headers: data.traceparent === undefined ? {} : { traceparent: data.traceparent },
    createdAt: new Date(data.ce_time),
  };
}
