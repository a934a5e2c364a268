/** Whether `text` has at most `limit` UTF-8 bytes. */
export function fitsBytes(text: string, limit: number): boolean {
  return text.length <= limit && (text.length * 3 <= limit || Buffer.byteLength(text, "utf8") <= limit);
}

/** Whether `text` can be an identifier: not empty, and encodable as UTF-8. */
export function isIdentifier(text: string, limit: number): boolean {
  return text !== "" && text.isWellFormed() && fitsBytes(text, limit);
}
