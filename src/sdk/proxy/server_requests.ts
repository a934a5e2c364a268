import { isPlain } from "../mcp/rules.ts";
import type { Message } from "./messages.ts";

type Members = Readonly<Record<string, unknown>>;

/** Requests of the server that pass. Any other could get input that no proof covers, or use the model. */
export const SERVER_REQUESTS = ["ping", "roots/list"];
/** In results of the revision 2026-07-28, elicitation passes too: a proof of its own covers the answer. */
const INPUT_REQUESTS = ["roots/list", "elicitation/create"];
const WITHHELD = { elicitation: "elicitation/create", sampling: "sampling/createMessage" };
/** Clients of the revision 2026-07-28 name their abilities in each request. */
const ABILITIES_OF_REQUEST = "io.modelcontextprotocol/clientCapabilities";

/** Hides the client's abilities for requests that the proxy refuses, so that the server does not try them. */
export function withhold(message: Message, methods: readonly string[]): Message {
  const { method, params } = message;
  if (method === "initialize" && isPlain(params?.capabilities)) {
    const capabilities = withheld(params.capabilities, [...SERVER_REQUESTS, ...methods]);
    return { ...message, params: { ...params, capabilities } };
  }
  const { _meta: meta } = params ?? {};
  const abilities = isPlain(meta) ? meta[ABILITIES_OF_REQUEST] : undefined;
  if (!isPlain(meta) || !isPlain(abilities)) return message;
  const own = { ...meta, [ABILITIES_OF_REQUEST]: withheld(abilities, [...INPUT_REQUESTS, ...methods]) };
  return { ...message, params: { ...params, _meta: own } };
}

function withheld(abilities: Members, passed: readonly string[]): Members {
  const hidden = Object.entries(WITHHELD).filter(([, method]) => !passed.includes(method));
  return Object.fromEntries(
    Object.entries(abilities).filter(([name]) => !hidden.some(([each]) => each === name)),
  );
}

/** Returns whether a result asks the client for input that the proxy refuses. */
export function asksForClosedInput(result: Members | undefined, methods: readonly string[]): boolean {
  const { inputRequests } = result ?? {};
  if (inputRequests === undefined) return false;
  const passed = [...INPUT_REQUESTS, ...methods];
  const isPassed = (each: unknown) => isPlain(each) && passed.includes(String(each.method));
  return !isPlain(inputRequests) || !Object.values(inputRequests).every(isPassed);
}
