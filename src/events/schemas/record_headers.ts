import { type ZodType, z } from "zod";
import { SOURCE, SPECVERSION, toRecord } from "../kafka/records.ts";
import { CUSTOMER_CONNECTION, SCHEMA_VERSION } from "../outbox.ts";

/** A JSON object, such as a schema. */
export type Json = Record<string, unknown>;

/**
 * Returns the JSON Schema (2020-12 and draft 7) of a value that programs receive. It allows members that it
 * does not name, because later versions may add some. A member that may be any JSON has only its description.
 */
export function openSchema(schema: ZodType): Json {
  const { $schema, $defs, ...rest } = z.toJSONSchema(schema, {
    override({ jsonSchema }) {
      const isMap = jsonSchema.propertyNames !== undefined;
      if (isMap) delete jsonSchema.propertyNames;
      if (isMap || jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties;
    },
  }) as Json;
  return JSON.parse(JSON.stringify(rest), (name, value) => (name === "$ref" ? undefined : value));
}

const HISTORY_ID =
  "UUIDv5 of the entry's event_id in the namespace of the account's id. A record with an id that you already have is a repetition";
const NUMBER = "^[1-9][0-9]*$";
const uuid = { type: "string", format: "uuid" };

/** The headers of every record. All values are strings. */
const common = {
  ce_specversion: { const: SPECVERSION, description: "CloudEvents 1.0, in binary mode" },
  ce_id: {
    ...uuid,
    description: "The event's id. A record with an id that you already have is a repetition",
  },
  ce_source: { const: SOURCE },
  ce_type: { type: "string", minLength: 1, description: "The event's kind" },
  ce_subject: {
    type: "string",
    minLength: 1,
    description: "The connection or account that the event belongs to",
  },
  ce_time: { type: "string", format: "date-time", description: "When it happened" },
  ce_sequence: {
    type: "string",
    pattern: NUMBER,
    description:
      "Its number among the events of its subject. Events that were not carried by Kafka are missing from the topic",
  },
  ce_schemaversion: { type: "string", pattern: NUMBER, description: "The version of the value's schema" },
  ce_aggregatetype: { type: "string", minLength: 1, description: "The kind of the subject" },
  "content-type": { const: "application/json" },
  traceparent: {
    type: "string",
    pattern: "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
    description: "W3C Trace Context of the request that caused the event, if the request had one",
  },
};

const { ce_sequence, ...unnumbered } = common;

/** Returns the schema of the headers of one kind of event. Records of the history are not `numbered`. */
export function recordHeaders(
  kind: string,
  { subject, numbered }: { subject: "connection" | "account"; numbered: boolean },
): Json {
  const schema = headersSchema({
    ...(numbered ? common : { ...unnumbered, ce_id: { ...uuid, description: HISTORY_ID } }),
    ce_type: { const: kind },
    ce_subject: { ...uuid, description: `The ${subject}'s id, as the record's key has it` },
    ce_schemaversion: { const: String(SCHEMA_VERSION) },
    ce_aggregatetype:
      subject === "connection" ? { enum: ["connection", CUSTOMER_CONNECTION] } : { const: subject },
  });
  const { headers } = toRecord({
    eventId: ID,
    type: kind,
    aggregateType: subject,
    aggregateId: SUBJECT,
    ...(numbered && { aggregateSeq: 7 }),
    schemaVersion: SCHEMA_VERSION,
    payload: "",
    headers: { traceparent: TRACE },
    createdAt: new Date(1_795_555_034_754),
  });
  return { ...schema, examples: [headers] };
}

const ID = "01a20f6b-8ad2-7445-8d56-8a98389d309d";
const SUBJECT = "01a20f6b-8aca-7a04-8b3e-8393eae000ee";
const TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/** Returns the schema of a dead letter's headers: those of its record, the reason, and the Kafka position. */
export function deadLetterHeaders(): Json {
  return headersSchema(
    {
      ...common,
      "content-type": { type: "string" },
      deputize_consumer: {
        type: "string",
        minLength: 1,
        description: "The consumer that could not handle it",
      },
      deputize_reason: { type: "string", description: "Why the consumer could not handle it" },
      deputize_origin_topic: { type: "string", minLength: 1 },
      deputize_origin_partition: { type: "string", pattern: "^(0|[1-9][0-9]*)$" },
      deputize_origin_offset: { type: "string", pattern: "^(0|[1-9][0-9]*)$" },
    },
    ["deputize_origin_topic", "deputize_origin_partition", "deputize_origin_offset"],
  );
}

function headersSchema(properties: Json, optional: readonly string[] = []): Json {
  const required = Object.keys(properties).filter(
    (name) => name !== "traceparent" && !optional.includes(name),
  );
  return { type: "object", properties, required };
}
