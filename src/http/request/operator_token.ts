import { hash, timingSafeEqual } from "node:crypto";

/** Knows the operator by a secret that both sides were given. Without one, nobody is the operator. */
export function createSharedToken(secret: string | undefined): (token: string) => Promise<boolean> {
  if (secret === undefined) return async () => false;
  const expected = digest(secret);
  return async (token) => timingSafeEqual(digest(token), expected);
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}
