import type Koa from "koa";
import { eventSchemas } from "../../events/schemas/event_schemas.ts";
import type { Json } from "../../events/schemas/record_headers.ts";
import { createNames } from "../../input/names.ts";
import { jsonPage, type PageTime } from "../openapi/json_page.ts";
import { channelsOf } from "./channels.ts";
import { deadLetterMessage, recordMessage, webhookMessage } from "./messages.ts";

const DESCRIPTION = `The events of the service, as programs receive them: as Kafka records, where the service runs with
\`EVENTS=kafka\`, and as webhooks. The operations describe the program that receives them.

Every event arrives at least once: ignore an event whose id you already have. New members and headers may be added:
ignore those that this document does not name.`;

/**
 * Returns the AsyncAPI 3.0 document of the Kafka topics and the webhooks. It contains no host name. The names
 * of webhook headers contain `word`, the service's name in headers.
 */
export function asyncApiDocument({ word, version }: { word: string; version: string }): Json {
  const names = createNames(word);
  const events = eventSchemas();
  const sent = events.filter(({ body }) => body !== undefined);
  const kindsOn = (topic: string) => events.filter((event) => event.topic === topic).map(({ kind }) => kind);
  const channels = channelsOf({
    lifecycle: kindsOn("lifecycle"),
    audit: kindsOn("audit"),
    dead_letters: ["dead_letter"],
    webhooks: sent.map(({ kind }) => `${kind}.webhook`),
  });
  return {
    asyncapi: "3.0.0",
    info: { title: "Deputize events", version, description: DESCRIPTION },
    defaultContentType: "application/json",
    servers: {
      kafka: {
        host: "{brokers}",
        protocol: "kafka",
        description: "The Kafka cluster that the service writes to; its administrators choose TLS and SASL",
        variables: { brokers: { description: "The brokers, as <host>:<port> separated by commas" } },
      },
      receiver: {
        host: "{receiver}",
        protocol: "https",
        description: "The program behind a connection's callback URL",
        variables: { receiver: { description: "The callback URL's host" } },
      },
    },
    channels,
    operations: Object.fromEntries(Object.keys(channels).map((name) => [`receive_${name}`, receiving(name)])),
    components: {
      messages: Object.fromEntries([
        ...events.map((event) => [event.kind, recordMessage(event)]),
        ["dead_letter", deadLetterMessage()],
        ...sent.map((event) => [`${event.kind}.webhook`, webhookMessage(event, names)]),
      ]),
    },
  };
}

function receiving(channel: string): Json {
  return {
    action: "receive",
    channel: { $ref: `#/channels/${channel}` },
    ...(channel === "webhooks" && { bindings: { http: { method: "POST", bindingVersion: "0.3.0" } } }),
  };
}

/** Serves the AsyncAPI document at `/asyncapi.json`. */
export function asyncApiPage(document: () => Json, time: PageTime): Koa.Middleware {
  return jsonPage("/asyncapi.json", document, time);
}
