import { ApiError } from "../../../errors.ts";
import { type Html, html } from "../../../html/html.ts";
import type { Outcome } from "../../core/page.ts";

/**
 * What a form answers that makes a secret: the secret the first time, and when the same form comes again that
 * it was shown.
 */
export async function onceOnly(
  make: () => Promise<Outcome>,
  again: { title: string; explain: string; links: readonly Html[] },
): Promise<Outcome> {
  return make().catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.code !== "answer_not_kept") throw error;
    const { title, explain, links } = again;
    return { title, content: html`<p class="notice">${explain}</p><p class="actions">${links}</p>` };
  });
}
