import { type Html, html, prose } from "../../html/html.ts";
import { describe, membersOf, type Schema } from "./schema.ts";

type Content = Record<string, { schema: Schema; example?: unknown }>;

/** An operation as the OpenAPI document describes it. */
export type Operation = {
  operationId: string;
  summary: string;
  tags: string[];
  security: Record<string, unknown>[];
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: Schema }[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<
    string,
    { description: string; headers?: Record<string, unknown>; content?: Content; "x-error-codes"?: string[] }
  >;
};

/** Returns the section about one operation. */
export function operationSection(method: string, path: string, operation: Operation): Html {
  return html`<article id="${operation.operationId}">
<h3>${operation.summary}</h3>
<p class="call"><span class="method ${method}">${method.toUpperCase()}</span> ${path}</p>
${callersOf(operation)}
${parametersOf(operation)}
${requestOf(operation)}
<h4>Answers</h4>
${Object.entries(operation.responses).map(([status, response]) => answerOf(status, response))}
</article>`;
}

const callers: Record<string, string> = {
  session: "session cookie",
  refresh: "refresh cookie",
  csrf: "CSRF header",
  api_key: "API key",
  bearer: "API key as bearer token",
};

function callersOf({ security }: Operation): Html {
  const ways = security.map((way) =>
    Object.keys(way)
      .map((name) => callers[name] ?? name)
      .join(" and "),
  );
  return html`<p class="quiet">${ways.length === 0 ? "For anybody" : `Needs: ${ways.join(", or ")}`}</p>`;
}

function parametersOf({ parameters = [] }: Operation): Html | undefined {
  const listed = parameters.filter(({ name }) => name !== "X-Request-Id");
  if (listed.length === 0) return undefined;
  return html`<h4>Parameters</h4><dl>${listed.map(
    ({ name, in: place, required, description, schema }) =>
      html`<dt><code>${name}</code> <span class="quiet">${place}</span></dt><dd>${describe(
        description === undefined ? schema : { ...schema, description },
        required,
      )}</dd>`,
  )}</dl>`;
}

function requestOf({ requestBody }: Operation): Html | undefined {
  const content = requestBody?.content["application/json"];
  if (requestBody === undefined || content === undefined) return undefined;
  return html`<h4>Body${requestBody.required ? undefined : html` <span class="quiet">may be left out</span>`}</h4>
${exampleOf(content.example)}
<details><summary>Members</summary>${membersOf(content.schema)}</details>`;
}

function answerOf(status: string, response: Operation["responses"][string]): Html {
  const content = response.content?.["application/json"];
  const isError = response["x-error-codes"] !== undefined && content?.schema.anyOf === undefined;
  const headers = Object.keys(response.headers ?? {}).filter((name) => name !== "X-Request-Id");
  const members = isError || content === undefined ? undefined : membersOf(content.schema);
  return html`<details><summary><code>${status}</code> ${prose(response.description.split("\n\n")[0] ?? "")}</summary>
${prose(response.description.split("\n\n").slice(1).join("\n\n"))}
${headers.length === 0 ? undefined : html`<p class="quiet">Headers: ${headers.join(", ")}</p>`}
${content === undefined ? html`<p class="quiet">No body</p>` : exampleOf(content.example)}
${members}</details>`;
}

function exampleOf(example: unknown): Html {
  return html`<pre>${JSON.stringify(example, null, 2)}</pre>`;
}
