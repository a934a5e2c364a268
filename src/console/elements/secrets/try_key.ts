import { curlLine } from "../../../proofs/try/curl_line.ts";
import type { Visit } from "../../core/page.ts";

/** A line for a shell that calls the API with the key in `$API_KEY`, and changes nothing. */
export function tryKeyLine({ outside }: Visit, connectionId: string): string {
  const url = outside.url(`/v1/service/connections/${connectionId}/agents`);
  return curlLine({ url, header: outside.header("X-Service-API-Key"), apiKey: "$API_KEY" });
}
