import { parseJson, plainJson } from "../../protocol/encoding/json.ts";
import type { RequestView } from "../route.ts";

const MAX_DEPTH = 64;
const JSON_TYPE = /^application\/([\w.-]+\+)?json[ \t]*(;|$)/i;
const BYTES_TYPE = /^application\/octet-stream[ \t]*(;|$)/i;

/**
 * Reads a body by its content type. JSON is parsed strictly, and any other body is bytes. Throws
 * `ProtocolError` if a body of JSON is not strictly one document. `isOtherType`: the type is neither JSON nor
 * `application/octet-stream`, so no proof can be bound to the body. The Python guard has the same rules.
 */
export function readBody(
  contentType: string,
  bytes: Uint8Array,
): Required<Pick<RequestView, "body" | "isSent" | "isOtherType">> {
  if (bytes.length === 0) return { body: undefined, isSent: false, isOtherType: false };
  if (!JSON_TYPE.test(contentType)) {
    return { body: bytes, isSent: true, isOtherType: !BYTES_TYPE.test(contentType) };
  }
  const body = plainJson(parseJson(bytes, { bytes: bytes.length, depth: MAX_DEPTH }));
  return { body, isSent: true, isOtherType: false };
}
