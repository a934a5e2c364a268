import { Buffer } from "node:buffer";
import { ProtocolError } from "../../protocol/encoding/errors.ts";
import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import { isPlain } from "../mcp/rules.ts";

/** The id of a JSON-RPC request. */
export type MessageId = string | number;

/** A JSON-RPC message, newly built from its known members. */
export type Message = {
  readonly jsonrpc: "2.0";
  readonly id?: MessageId;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: Readonly<Record<string, unknown>>;
};

/** An error response, whose text is fixed. */
export type ErrorMessage = {
  readonly jsonrpc: "2.0";
  readonly id: MessageId | null;
  readonly error: { readonly code: number; readonly message: string };
};

/** Why the proxy does not read a message. */
export type MessageFault = "too_large" | "too_deep" | "not_strict_json" | "batch" | "not_a_message";

/** Maximum size of one message in bytes, in both directions. */
export const MAX_MESSAGE_BYTES = 16 * 1_048_576;

/** The arguments of a call may have 64 levels, and the message has four around them. */
const MAX_DEPTH = 68;
/** Code that follows the levels of a server's message has a limited stack. */
const MAX_SERVER_DEPTH = 256;
const MEMBERS = ["jsonrpc", "id", "method", "params", "result", "error"];
/** `JSON.parse` can change a number with this many digits. */
const LONG_NUMBER = /\d{16}/;

const FAULTS: Readonly<Record<MessageFault, readonly [number, string]>> = {
  too_large: [-32600, "The message is too large. Nothing was done."],
  too_deep: [-32600, "The message is nested too deeply. Nothing was done."],
  not_strict_json: [-32700, "The message is not strict JSON. Nothing was done."],
  batch: [-32600, "Batches are not supported. Nothing was done."],
  not_a_message: [-32600, "The message is not a JSON-RPC message. Nothing was done."],
};

/** Returns the response to a message that the proxy does not read. */
export function faultMessage(fault: MessageFault): ErrorMessage {
  const [code, message] = FAULTS[fault];
  return errorMessage(null, code, message);
}

export function errorMessage(id: MessageId | null, code: number, message: string): ErrorMessage {
  return { jsonrpc: "2.0", id, error: { code, message } };
}

/**
 * Parses a message of a client as strictly as a proof, so that no two parsers read it differently. An array
 * is refused: the protocol has had no batches since 2025-06-18, and a batch could hide a call.
 */
export function readClientMessage(bytes: Uint8Array): Message | MessageFault {
  let value: unknown;
  try {
    value = plainJson(parseJson(bytes, { bytes: MAX_MESSAGE_BYTES, depth: MAX_DEPTH }));
  } catch (error) {
    if (error instanceof ProtocolError) return error.code === "too_large" ? "too_large" : "not_strict_json";
    throw error;
  }
  if (Array.isArray(value)) return "batch";
  if (!isPlain(value) || Object.keys(value).some((name) => !MEMBERS.includes(name))) return "not_a_message";
  return build(value) ?? "not_a_message";
}

/** A message of the server, and its text if the proxy may pass it on without a change. */
export type ServerMessage = { message: Message; text: string };

/** Parses a message of the server. Its numbers with many digits are passed on as they are. */
export function readServerMessage(bytes: Uint8Array): ServerMessage | MessageFault {
  if (bytes.length > MAX_MESSAGE_BYTES) return "too_large";
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8").trim();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "not_strict_json";
  }
  if (Array.isArray(value)) return "batch";
  if (!isShallow(value, MAX_SERVER_DEPTH)) return "too_deep";
  const message = isPlain(value) ? build(value) : undefined;
  if (message === undefined) return "not_a_message";
  const isKept = LONG_NUMBER.test(text) && isStrict(bytes);
  // Between tokens, a line end is space. A client could take the rest of the text as a message of its own.
  return { message, text: isKept ? text.replace(/[\r\n]/g, " ") : JSON.stringify(message) };
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isShallow(member, levels - 1));
}

function isStrict(bytes: Uint8Array): boolean {
  try {
    parseJson(bytes, { bytes: MAX_MESSAGE_BYTES, depth: MAX_DEPTH, largeNumbers: "mark" });
    return true;
  } catch {
    return false;
  }
}

/** Builds a request, a notification or a response. A message that is two of them counts as none. */
function build(value: Readonly<Record<string, unknown>>): Message | undefined {
  const { jsonrpc, id, method, params, result, error } = value;
  if (jsonrpc !== "2.0" || !(id === undefined || isId(id))) return undefined;
  const own = { jsonrpc, ...(id !== undefined && { id }) } as const;
  if (method !== undefined) return buildRequest(own, value);
  if (params !== undefined || id === undefined) return undefined;
  if (isPlain(result) && error === undefined) return { ...own, result };
  return isPlain(error) && result === undefined ? { ...own, error } : undefined;
}

function buildRequest(
  own: { readonly jsonrpc: "2.0"; readonly id?: MessageId },
  { method, params, result, error }: Readonly<Record<string, unknown>>,
): Message | undefined {
  if (typeof method !== "string" || result !== undefined || error !== undefined) return undefined;
  if (params === undefined) return { ...own, method };
  return isPlain(params) ? { ...own, method, params } : undefined;
}

function isId(id: unknown): id is MessageId {
  return (typeof id === "string" && id.length <= 256) || Number.isSafeInteger(id);
}
