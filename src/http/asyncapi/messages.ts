import type { EventSchema } from "../../events/schemas/event_schemas.ts";
import { deadLetterHeaders, type Json } from "../../events/schemas/record_headers.ts";
import type { Names } from "../../input/names.ts";

/** Returns the AsyncAPI message of one kind of event, as a Kafka record. */
export function recordMessage({ kind, meaning, subject, value, examples, headers }: EventSchema): Json {
  const [headersExample] = headers.examples as Json[];
  return {
    name: kind,
    title: kind,
    summary: meaning,
    contentType: "application/json",
    headers,
    payload: value,
    correlationId,
    bindings: keyed(`The ${subject}'s id`),
    examples: examples.map((payload) => ({ headers: headersExample, payload })),
  };
}

/** Returns the AsyncAPI message of a record that a consumer could not handle. */
export function deadLetterMessage(): Json {
  return {
    name: "dead_letter",
    title: "Dead letter",
    summary: "The record unchanged; its headers contain the reason and the record's original position",
    headers: deadLetterHeaders(),
    payload: { description: "The record's value; not JSON if ce_type is unreadable" },
    correlationId,
    bindings: keyed("The event's id"),
  };
}

const correlationId = {
  location: "$message.header#/traceparent",
  description: "W3C Trace Context of the request that caused the event, if the request had one",
};

function keyed(description: string): Json {
  return { kafka: { key: { type: "string", format: "uuid", description }, bindingVersion: "0.5.0" } };
}

/** Returns the AsyncAPI message of a request to a callback URL. */
export function webhookMessage({ kind, meaning, body }: EventSchema, names: Names): Json {
  const deliveryId = names.header("X-Service-Delivery-ID");
  const hex = { type: "string", pattern: "^[0-9a-f]{64}$" };
  const seconds = { type: "string", pattern: "^[0-9]+$" };
  const uuid = { type: "string", format: "uuid" };
  const properties = {
    [names.header("X-Service-Signature")]: {
      ...hex,
      description: "HMAC-SHA256 of timestamp.raw_body under the webhook signing secret",
    },
    [names.header("X-Service-Timestamp")]: { ...seconds, description: "Unix seconds of this attempt" },
    [deliveryId]: {
      ...uuid,
      description: "The same at every attempt: ignore an event whose delivery id you already have",
    },
    "webhook-id": uuid,
    "webhook-timestamp": seconds,
    "webhook-signature": {
      type: "string",
      description: "The signature that Standard Webhooks libraries verify",
    },
  };
  return {
    name: kind,
    title: `${kind}, as a webhook`,
    summary: meaning,
    contentType: "application/json",
    headers: { type: "object", properties, required: Object.keys(properties) },
    payload: body?.schema,
    correlationId: { location: `$message.header#/${deliveryId}` },
    examples: body?.examples.map((payload) => ({ payload })),
  };
}
