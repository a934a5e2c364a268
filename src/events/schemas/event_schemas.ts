import { z } from "zod";
import { historyEntry, historyEventType } from "../../history/history_entry.ts";
import { topics } from "../kafka/settings.ts";
import { accountEventKinds, eventKinds } from "../kinds.ts";
import { SCHEMA_VERSION } from "../outbox.ts";
import { eventExamples, secretExamples } from "./examples.ts";
import { deadLetterHeaders, type Json, openSchema, recordHeaders } from "./record_headers.ts";

/** The description of one kind of event for programs in any language. */
export type EventSchema = {
  kind: string;
  meaning: string;
  topic: "lifecycle" | "audit";
  /** The aggregate that the event belongs to. Its id is the key of the record. */
  subject: "connection" | "account";
  /** The schema of a record's value. */
  value: Json;
  examples: Json[];
  headers: Json;
  /** The webhook's body. Absent for kinds that no webhook carries. */
  body?: { schema: Json; examples: Json[]; hasSecrets: boolean };
};

/** Returns every kind of event that the Kafka topics and webhooks carry. */
export function eventSchemas(): EventSchema[] {
  return [...lifecycleSchemas(), ...accountSchemas(), ...historySchemas()];
}

function lifecycleSchemas(): EventSchema[] {
  return Object.entries(eventKinds).map(([kind, { meaning, fields, secrets }]) => {
    const example = { event: kind, ...eventExamples[kind as keyof typeof eventKinds] };
    const shown = Object.fromEntries(secrets.map((name) => [name, secretExamples[name]]));
    const members = Object.fromEntries(secrets.map((name) => [name, SECRET]));
    return {
      ...{ kind, meaning, topic: "lifecycle", subject: "connection" },
      value: namedSchema(kind, fields),
      examples: [example],
      headers: recordHeaders(kind, { subject: "connection", numbered: true }),
      body: {
        schema: namedSchema(kind, fields.extend({ ...members, delivery_id: DELIVERY_ID })),
        examples: [{ ...example, ...shown, delivery_id: "5f0c1c1e-6d0c-5d53-8d0f-0a2f5b0a7c11" }],
        hasSecrets: secrets.length > 0,
      },
    };
  });
}

const DELIVERY_ID = z
  .uuid()
  .optional()
  .describe("The same id as in the header. Deliveries from before an upgrade may lack it");
const SECRET = z.string().min(1).describe("A secret. Only webhooks contain it. Do not log it");

function accountSchemas(): EventSchema[] {
  return Object.entries(accountEventKinds).map(([kind, fields]) => ({
    ...{ kind, meaning: fields.description ?? "", topic: "lifecycle", subject: "account" },
    value: namedSchema(kind, fields),
    examples: [{ event: kind, ...eventExamples[kind as keyof typeof accountEventKinds] }],
    headers: recordHeaders(kind, { subject: "account", numbered: true }),
  }));
}

function namedSchema(kind: string, fields: z.ZodObject): Json {
  return openSchema(z.object({ event: z.literal(kind), ...fields.shape }));
}

type HistoryKind = z.infer<typeof historyEventType>;

const historyMeanings: Record<HistoryKind, string> = {
  "proof.verified": "The service decided on a proof, and the decision is allow",
  "proof.rejected": "The service decided on a proof, and the decision is deny or indeterminate",
  "proof.presented": "The vault signed a challenge for an agent, which the agent can present as a proof",
};

function historySchemas(): EventSchema[] {
  return historyEventType.options.map((kind) => ({
    ...{ kind, meaning: historyMeanings[kind], topic: "audit", subject: "account" },
    value: openSchema(historyEntry.extend({ event_type: z.literal(kind) })),
    examples: [{ ...eventExamples[kind] }],
    headers: recordHeaders(kind, { subject: "account", numbered: false }),
  }));
}

const DRAFT = "https://json-schema.org/draft/2020-12/schema";

/**
 * Returns the JSON Schemas in `docs/events/`, by file name. The schema of a kind describes a record's value,
 * and its headers in `$defs`. A webhook body that differs has its own schema, and so do dead letters.
 */
export function schemaFiles(): Record<string, Json> {
  const files = eventSchemas().flatMap((event) => [
    [`${event.kind}.schema.json`, recordFile(event)] as const,
    ...(event.body?.hasSecrets ? [[`${event.kind}.webhook.schema.json`, bodyFile(event)] as const] : []),
  ]);
  return { ...Object.fromEntries(files), "dead_letter.schema.json": deadLetterFile() };
}

function recordFile(event: EventSchema): Json {
  const { kind, meaning, topic, subject, value, examples, headers, body } = event;
  const webhook =
    body === undefined
      ? "No webhook carries it."
      : body.hasSecrets
        ? `The webhook's body also contains secrets: ${kind}.webhook.schema.json.`
        : "The webhook's body also contains delivery_id.";
  return {
    ...about(`event:${kind}`, kind),
    description: `${meaning}. Describes the value of a record on the topic ${topics[topic]}. The key is the ${subject}'s id. $defs/headers describes the headers. ${webhook}`,
    ...value,
    examples,
    $defs: { headers },
  };
}

function bodyFile({ kind, meaning, body }: EventSchema): Json {
  return {
    ...about(`webhook:${kind}`, `${kind}, as a webhook`),
    description: `${meaning}. Describes the body of the webhook. It contains secrets, so do not log it.`,
    ...body?.schema,
    examples: body?.examples,
  };
}

function deadLetterFile(): Json {
  return {
    ...about("dead_letter", "Dead letter"),
    description: `A record that a consumer of the service could not handle. On the topic ${topics.deadLetters}, the value is that of the original record. It may not be JSON if ce_type is "unreadable". The key is ce_id. $defs/headers describes the headers.`,
    $defs: { headers: deadLetterHeaders() },
  };
}

function about(name: string, title: string): Json {
  return { $schema: DRAFT, $id: `urn:deputize:${name}:v${SCHEMA_VERSION}`, title };
}
