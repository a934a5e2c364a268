import { z } from "zod";
import { historyEntry, historyEventType } from "../../audit/history_entry.ts";
import { accountEventKinds } from "../account_kinds.ts";
import { eventKinds } from "../kinds.ts";
import { eventExamples, secretExamples } from "./examples.ts";
import { type Json, openSchema } from "./json_schema.ts";
import { recordHeaders } from "./record_headers.ts";

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
