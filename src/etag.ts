import { hash } from "node:crypto";

/** Returns the strong ETag of a response text. Equal texts have equal ETags. */
export function etagOf(text: string): string {
  return `"${hash("sha256", text).slice(0, 32)}"`;
}

/** Returns whether an `If-None-Match` header contains this ETag, strong or weak, or `*`. */
export function isNamed(header: string | undefined, etag: string): boolean {
  const names = header?.split(",").map((name) => name.trim().replace(/^W\//, "")) ?? [];
  return names.includes(etag) || names.includes("*");
}
