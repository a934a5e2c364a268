import { z } from "zod";
import { historyEntry, historyEventType } from "../../history/history_entry.ts";
import { topics } from "../kafka/settings.ts";
import { accountEventKinds, eventKinds } from "../kinds.ts";
import { SCHEMA_VERSION } from "../outbox.ts";
import { eventExamples, secretExamples } from "./examples.ts";
import { deadLetterHeaders, type Json, openSchema, recordHeaders } from "./record_headers.ts";

/** What a program in any language needs to know of one kind of event. */
export type EventSchema = {
  kind: string;
  /** What happened. */
  meaning: string;
  /** On which topic its records are. */
  topic: "lifecycle" | "audit";
  /** What it happened to; its id is the record's key. */
  subject: "connection" | "account";
  /** The schema of a record's value, and a value. */
  value: Json;
  examples: Json[];
  /** The schema of a record's headers. */
  headers: Json;
  /** The schema of a webhook's body, and a body; absent for what goes to no callback URL. */
  body?: { schema: Json; examples: Json[] };
};

/** Every kind of event that Kafka's topics and webhooks carry, from the tables that events are made by. */
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
        schema: namedSchema(kind, fields.extend(members)),
        examples: [{ ...example, ...shown }],
      },
    };
  });
}

const SECRET = z.string().min(1).describe("A secret: only webhooks carry it, do not log it");

function accountSchemas(): EventSchema[] {
  return Object.entries(accountEventKinds).map(([kind, fields]) => ({
    ...{ kind, meaning: fields.description ?? "", topic: "lifecycle", subject: "account" },
    value: namedSchema(kind, fields),
    examples: [{ event: kind, ...eventExamples[kind as keyof typeof accountEventKinds] }],
    headers: recordHeaders(kind, { subject: "account", numbered: true }),
  }));
}

/** A payload: its kind, then its fields. */
function namedSchema(kind: string, fields: z.ZodObject): Json {
  return openSchema(z.object({ event: z.literal(kind), ...fields.shape }));
}

type HistoryKind = z.infer<typeof historyEventType>;

const historyMeanings: Record<HistoryKind, string> = {
  "proof.verified": "A proof was decided on, and the decision is allow",
  "proof.rejected": "A proof was decided on, and the decision is deny or indeterminate",
  "proof.presented": "The vault signed a challenge for an agent, which can be shown as a proof",
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
 * The JSON Schemas in `docs/events/`, by file name: one for each kind of event, of a record's value with its
 * headers in `$defs`; one for each webhook body that differs; one for dead letters.
 */
export function schemaFiles(): Record<string, Json> {
  const files = eventSchemas().flatMap((event) => [
    [`${event.kind}.schema.json`, recordFile(event)] as const,
    ...(differs(event) ? [[`${event.kind}.webhook.schema.json`, bodyFile(event)] as const] : []),
  ]);
  return { ...Object.fromEntries(files), "dead_letter.schema.json": deadLetterFile() };
}

function differs({ value, body }: EventSchema): boolean {
  return body !== undefined && JSON.stringify(body.schema) !== JSON.stringify(value);
}

function recordFile(event: EventSchema): Json {
  const { kind, meaning, topic, subject, value, examples, headers, body } = event;
  const webhook =
    body === undefined
      ? "No webhook carries it."
      : differs(event)
        ? `The webhook's body has secrets besides: ${kind}.webhook.schema.json.`
        : "The webhook's body is the same.";
  return {
    ...about(`event:${kind}`, kind),
    description: `${meaning}. The value of a record of the topic ${topics[topic]}; its key is the ${subject}'s id, its headers are $defs/headers. ${webhook}`,
    ...value,
    examples,
    $defs: { headers },
  };
}

function bodyFile({ kind, meaning, body }: EventSchema): Json {
  return {
    ...about(`webhook:${kind}`, `${kind}, as a webhook`),
    description: `${meaning}. The body of the webhook, which has secrets: do not log it.`,
    ...body?.schema,
    examples: body?.examples,
  };
}

function deadLetterFile(): Json {
  return {
    ...about("dead_letter", "Dead letter"),
    description: `What a consumer of the service could not handle. The value of a record of the topic ${topics.deadLetters} is that of the record as it was, which may be no JSON when ce_type is "unreadable"; its key is ce_id, its headers are $defs/headers.`,
    $defs: { headers: deadLetterHeaders() },
  };
}

function about(name: string, title: string): Json {
  return { $schema: DRAFT, $id: `urn:deputize:${name}:v${SCHEMA_VERSION}`, title };
}
