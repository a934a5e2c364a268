import { ApiError } from "../../errors.ts";
import type { AddressPolicy } from "../../events/webhooks/callbacks/addresses.ts";
import { callbackUrlForm } from "../../events/webhooks/callbacks/url_form.ts";

/**
 * Refuses with `invalid_callback_url` what a callback URL's text alone shows to be wrong: outside development
 * anything but https; a user or password; this machine or a literal address, unless the policy opens it;
 * characters that a URL parser drops without a word. What its name resolves to is checked at every delivery.
 */
export function checkCallbackUrl(text: string, policy: AddressPolicy): void {
  const form = callbackUrlForm(text, policy);
  if ("refused" in form) throw new ApiError("invalid_callback_url", `callback_url: ${form.refused}`);
  if (/[\s\p{Cc}]/u.test(text)) {
    throw new ApiError(
      "invalid_callback_url",
      "callback_url: must not contain white space or control characters",
    );
  }
}
