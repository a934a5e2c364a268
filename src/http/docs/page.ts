import { hash } from "node:crypto";
import type Koa from "koa";
import { type Html, html, inlineStyle, prose, renderDocument } from "../../html/html.ts";
import type { PageTime } from "../openapi/json_page.ts";
import type { Json } from "../openapi/schema.ts";
import { type Operation, operationSection } from "./operation.ts";
import { STYLE } from "./style.ts";

type SecurityScheme = { in?: string; name?: string; scheme?: string; description: string };

type Document = {
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { securitySchemes: Record<string, SecurityScheme> };
};

const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash("sha256", STYLE, "base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/**
 * Serves the OpenAPI document as a page at `/docs`. The page contains no script and loads nothing from other
 * hosts, so it works offline and under a strict content security policy.
 */
export function docsPage(document: () => Json, time: PageTime = "at_request"): Koa.Middleware {
  const render = () => renderDocument(pageOf(document() as Document));
  let page = time === "immediately" ? render() : undefined;
  return async (ctx, next) => {
    if (ctx.path !== "/docs" || (ctx.method !== "GET" && ctx.method !== "HEAD")) return next();
    page ??= render();
    ctx.set("content-security-policy", POLICY);
    ctx.type = "html";
    ctx.body = page;
  };
}

type Placed = { method: string; path: string; operation: Operation };

function pageOf(document: Document): Html {
  const { title, version, description } = document.info;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Placed => ({ method, path, operation })),
  );
  const groups = document.tags.map((tag) => ({
    ...tag,
    members: operations.filter(({ operation }) => operation.tags.includes(tag.name)),
  }));
  return html`<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>${title} API</title>
${inlineStyle(STYLE)}
</head>
<body>
<a class="skip" href="#content">To the operations</a>
<div class="page">
<nav aria-label="Operations">
${groups.map(
  ({ name, members }) =>
    html`<h2>${name}</h2><ul>${members.map(
      ({ method, operation }) =>
        html`<li><a href="#${operation.operationId}"><span class="method ${method}">${method.toUpperCase()}</span> ${operation.summary}</a></li>`,
    )}</ul>`,
)}
</nav>
<main id="content">
<h1>${title} API</h1>
<p class="quiet">Version ${version} at <code>${document.servers[0]?.url}</code>, made from <a href="openapi.json">openapi.json</a>;${" "}
events are in <a href="asyncapi.json">asyncapi.json</a></p>
<p>${description}</p>
${callersSection(document)}
${groups.map(
  ({ name, description: about, members }) => html`<section><h2>${name}</h2>${prose(about)}
${members.map(({ method, path, operation }) => operationSection(method, path, operation))}</section>`,
)}
</main>
</div>
</body>
</html>
`;
}

function callersSection({ components }: Document): Html {
  const schemes = Object.values(components.securitySchemes);
  return html`<section><h2>Who calls</h2><dl>${schemes.map(
    (scheme) =>
      html`<dt><code>${scheme.name ?? "Authorization"}</code> <span class="quiet">${scheme.in ?? scheme.scheme}</span></dt><dd>${scheme.description}</dd>`,
  )}</dl>
<p>Bodies are JSON, at most 256 kB; members that are not known are ignored. Every answer carries <code>X-Request-Id</code>, the request's own when it has one. A call that is refused or fails is answered by one object, <code>error</code>, with a stable <code>code</code>, a <code>message</code> for people and the <code>status</code>.</p></section>`;
}
