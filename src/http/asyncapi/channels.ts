import { wantedTopics } from "../../events/kafka/settings.ts";
import type { Json } from "../../events/schemas/record_headers.ts";
import { eventFields } from "../../input/event_settings.ts";

/** The names of each channel's messages. */
export type ChannelMessages = Record<"lifecycle" | "audit" | "dead_letters" | "webhooks", readonly string[]>;

const made = wantedTopics({ prefix: "", partitions: eventFields.KAFKA_PARTITIONS.parse(undefined) });

/** Returns the Kafka topics, with their default partitions and retention, and the callback URLs. */
export function channelsOf({ lifecycle, audit, dead_letters, webhooks }: ChannelMessages): Json {
  return {
    lifecycle: {
      ...topicChannel(made.lifecycle, lifecycle),
      title: "What happens to connections, delegations and accounts",
      description: "Events of one connection or account are in order, numbered by ce_sequence.",
    },
    audit: {
      ...topicChannel(made.audit, audit),
      title: "The history of proofs",
      description:
        "Each entry of an account's history, exactly and in the order in which GET /v1/service/audit/personal returns it.",
    },
    dead_letters: {
      ...topicChannel(made.deadLetters, dead_letters),
      title: "Dead letters",
      description: "Events that a consumer of the service could not handle.",
    },
    webhooks: {
      address: null,
      title: "Webhooks",
      description: "Requests to the connection's callback URL. Answer 204 when the event is stored.",
      servers: [{ $ref: "#/servers/receiver" }],
      messages: messagesOf(webhooks),
    },
  };
}

function topicChannel({ topic, partitions, retentionMs }: typeof made.audit, messages: readonly string[]) {
  return {
    address: `{prefix}${topic}`,
    servers: [{ $ref: "#/servers/kafka" }],
    parameters: { prefix: { description: "The setting KAFKA_PREFIX", default: "" } },
    messages: messagesOf(messages),
    bindings: {
      kafka: {
        partitions,
        topicConfiguration: { "cleanup.policy": ["delete"], "retention.ms": retentionMs },
        bindingVersion: "0.5.0",
      },
    },
  };
}

function messagesOf(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/messages/${name}` }]));
}
