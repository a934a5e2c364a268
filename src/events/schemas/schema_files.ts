import { topics } from "../kafka/settings.ts";
import { SCHEMA_VERSION } from "../outbox.ts";
import { type EventSchema, eventSchemas } from "./event_schemas.ts";
import type { Json } from "./json_schema.ts";
import { deadLetterHeaders } from "./record_headers.ts";

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
