import { Buffer } from "node:buffer";
import type { IncomingHttpHeaders } from "node:http";
import type { Message } from "../messages.ts";

/** The parameter that the header `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};
/** A header cannot have any text, so the protocol has this form for other text. */
const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;
const PLAIN = /^(?!=\?base64\?.*\?=$)[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/;
const LONGEST = 4_096;

/** Gateways route by these headers, so they always come from the body that the proxy has checked. */
export function routingHeaders(message: Message): Record<string, string> {
  const { method } = message;
  const name = nameOf(message);
  const encoded = name === undefined ? undefined : encode(name);
  return {
    ...(method !== undefined && { "mcp-method": method }),
    ...(encoded !== undefined && encoded.length <= LONGEST && { "mcp-name": encoded }),
  };
}

/** Returns whether the headers of a request name another method, tool, resource or task than its body. */
export function differs(headers: IncomingHttpHeaders, message: Message): boolean {
  const { "mcp-method": method, "mcp-name": name } = headers;
  const isOtherMethod = method !== undefined && method !== message.method;
  return isOtherMethod || (name !== undefined && decode(String(name)) !== nameOf(message));
}

function nameOf({ method = "", params }: Message): string | undefined {
  const source = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined;
  const name = source === undefined ? undefined : params?.[source];
  return typeof name === "string" ? name : undefined;
}

function encode(name: string): string {
  return PLAIN.test(name) ? name : `=?base64?${Buffer.from(name).toString("base64")}?=`;
}

function decode(header: string): string {
  const [, encoded] = ENCODED.exec(header) ?? [];
  return encoded === undefined ? header : Buffer.from(encoded, "base64").toString();
}
