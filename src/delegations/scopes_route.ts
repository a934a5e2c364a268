import { z } from "zod";
import { CANONICAL_SCOPES, SENSITIVE_SCOPES, WILDCARDS } from "../protocol/documents/scope_vocabulary.ts";
import { SCOPE_WORDS } from "../protocol/documents/scope_words.ts";
import { PROTOCOL_VERSION } from "../protocol/encoding/constants.ts";
import { type Route, route } from "../route.ts";

/** The answer with the scope vocabulary. */
export type ScopesAnswer = z.infer<typeof answer>;

const answer = z.object({
  scopes: z.array(z.string()),
  sensitive: z.array(z.string()).describe("Scopes that are granted by name only, never by a wildcard"),
  wildcards: z.record(z.string(), z.array(z.string())).describe("The scopes that each wildcard grants"),
  words: z
    .record(z.string(), z.string())
    .describe("What an agent may do with each scope and wildcard, in plain English"),
  version: z.int().describe("Version of the protocol whose vocabulary this is"),
});

/** `GET /v1/service/scopes`: returns the scope vocabulary (wire format §6), without `custom:` scopes. */
export function scopesRoute(): Route {
  return route({
    id: "list_scopes",
    method: "GET",
    path: "/v1/service/scopes",
    summary: "Read the vocabulary of scopes",
    access: "public",
    answer: { status: 200, schema: answer, description: "The vocabulary" },
    errors: [],
    handle: async () => ({
      body: {
        scopes: [...CANONICAL_SCOPES],
        sensitive: [...SENSITIVE_SCOPES],
        wildcards: Object.fromEntries([...WILDCARDS].map(([name, granted]) => [name, [...granted]])),
        words: SCOPE_WORDS,
        version: PROTOCOL_VERSION,
      },
      headers: { "cache-control": "public, max-age=3600" },
    }),
  });
}
