import { type AgentError, refusalError } from "./errors.ts";

const STATUSES = [403, 503];
const MOST_BYTES = 65_536;

/**
 * Returns the error of a guard's refusal, or `undefined` for any other response, whose body stays unread. It
 * reads only the code, and knows it. A challenge or an operation in the body has no effect.
 */
export async function readRefusal(response: Response, invocationId: string): Promise<AgentError | undefined> {
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  if (!STATUSES.includes(response.status) || !isJson) return undefined;
  try {
    const { error } = Object(JSON.parse(await startOf(response.clone()))) as { error?: unknown };
    const { code, status } = Object(error) as { code?: unknown; status?: unknown };
    return status === response.status ? refusalError(code, invocationId) : undefined;
  } catch {
    return undefined;
  }
}

async function startOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let [text, bytes] = ["", 0];
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) throw new RangeError("no guard sends so much");
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
