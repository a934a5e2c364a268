import { hash } from "node:crypto";

/** A strong ETag of a representation: the same for the same text. */
export function etagOf(text: string): string {
  return `"${hash("sha256", text).slice(0, 32)}"`;
}

/** Whether an `If-None-Match` header names this ETag, strong or weak, or any. */
export function isNamed(header: string | undefined, etag: string): boolean {
  const names = header?.split(",").map((name) => name.trim().replace(/^W\//, "")) ?? [];
  return names.includes(etag) || names.includes("*");
}
