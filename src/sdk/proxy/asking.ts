import type { ToolRefusal } from "../mcp/refusals.ts";
import { isPlain } from "../mcp/rules.ts";
import { AUTHORITY, authorityIn } from "../mcp/wire.ts";
import type { Message } from "./messages.ts";

type Members = Readonly<Record<string, unknown>>;

const ABILITIES_OF_REQUEST = "io.modelcontextprotocol/clientCapabilities";
const MESSAGE = "The agent needs your approval for this call.";

/**
 * Returns the call without the client's answer to {@link openPage}, which is no input of the tool, and
 * whether there was one.
 */
export function withoutOwnAnswer(message: Message): { call: Message; isAnswer: boolean } {
  const { inputResponses, ...params } = message.params ?? {};
  if (!isPlain(inputResponses) || !Object.hasOwn(inputResponses, AUTHORITY)) {
    return { call: message, isAnswer: false };
  }
  const { [AUTHORITY]: _, ...others } = inputResponses;
  const left = Object.keys(others).length > 0 ? { inputResponses: others } : {};
  return { call: { ...message, params: { ...params, ...left } }, isAnswer: true };
}

/**
 * Returns the result with which the client opens the page on which a person decides, and then repeats the
 * call. `undefined` if the agent has asked nobody, if the request does not declare that ability, or if the
 * call is a further round, which a repetition would lose.
 */
export function openPage(refusal: ToolRefusal, { _meta: meta, ...params }: Members): Members | undefined {
  const { code, url } = authorityIn(refusal._meta);
  if (code !== "awaiting_approval" || typeof url !== "string") return undefined;
  const isRound = params.inputResponses !== undefined || params.requestState !== undefined;
  if (isRound || !declaresUrls(meta)) return undefined;
  const question = { method: "elicitation/create", params: { mode: "url", message: MESSAGE, url } };
  return { resultType: "input_required", inputRequests: { [AUTHORITY]: question } };
}

function declaresUrls(meta: unknown): boolean {
  const abilities = isPlain(meta) ? meta[ABILITIES_OF_REQUEST] : undefined;
  const elicitation = isPlain(abilities) ? abilities.elicitation : undefined;
  return isPlain(elicitation) && isPlain(elicitation.url);
}
