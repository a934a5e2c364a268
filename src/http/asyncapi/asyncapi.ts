import type Koa from "koa";
import { eventSchemas } from "../../events/schemas/event_schemas.ts";
import type { Json } from "../../events/schemas/record_headers.ts";
import { createNames } from "../../input/names.ts";
import { jsonPage } from "../json_page.ts";
import { channelsOf } from "./channels.ts";
import { deadLetterMessage, recordMessage, webhookMessage } from "./messages.ts";

const DESCRIPTION = `What happens in the service, as programs receive it: as records of Kafka, where the service runs with
\`EVENTS=kafka\`, and as webhooks. Operations are those of the program that receives.

Both come at least once: drop what has an id that you have. Members and headers that this document does not name may be
added: ignore them.`;

/**
 * The AsyncAPI 3.0 document of the topics and the webhooks, made from the tables that events are made by. It
 * names no host; headers of webhooks carry the service's word.
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
        description: "The cluster that the service writes to; TLS and SASL are its administrators' to say",
        variables: { brokers: { description: "Its brokers, <host>:<port> with commas" } },
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

/** Serves the document at `/asyncapi.json`. */
export function asyncApiPage(document: Json): Koa.Middleware {
  return jsonPage("/asyncapi.json", document);
}
