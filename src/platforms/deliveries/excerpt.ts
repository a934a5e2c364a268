import { HIDDEN } from "../../input/plain_text.ts";

/** Control, format, private and unassigned code points; line breaks and tabs are left. */
const STRANGE = /[^\P{C}\n\t]/gu;
const EVERY_HIDDEN = new RegExp(HIDDEN.source, "gu");

/**
 * What a receiver answered, as text for people: read as UTF-8, with every byte and character that is not
 * visible replaced by U+FFFD, so that a receiver of somebody's choosing commands no terminal and hides
 * nothing.
 */
export function showExcerpt(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString("utf8")
    .replaceAll("\r\n", "\n")
    .replaceAll(STRANGE, "\ufffd")
    .replaceAll(EVERY_HIDDEN, "\ufffd");
}
