import { parseCookie, stringifySetCookie } from "cookie";
import type { Names } from "../input/names.ts";
import type { CookieChange, CookieName } from "../route.ts";

/** Reads and writes the service's cookies. */
export type Cookies = {
  /** The value of a cookie in a `Cookie` header; of two with one name, the first. */
  read(header: string | undefined, name: CookieName): string | undefined;
  /** A cookie's name on the wire. */
  nameOf(name: CookieName): string;
  /** The `Set-Cookie` value that makes a change. */
  write(change: CookieChange): string;
};

/**
 * Cookies for a base URL: `SameSite=Lax`, bound to its path, and `Secure` unless it is plain http on this
 * machine. Scripts can read the CSRF cookie only; the refresh cookie is sent to the refresh call and nowhere
 * else, the sign-in cookie to the calls that send and take codes.
 */
export function createCookies(names: Names, baseUrl: string): Cookies {
  const base = new URL(baseUrl);
  const secure = !(base.protocol === "http:" && isLoopback(base.hostname));
  const root = base.pathname.replace(/\/+$/, "");
  const paths = {
    session: `${root}/`,
    csrf: `${root}/`,
    refresh: `${root}/v1/auth/refresh`,
    sign_in: `${root}/v1/auth/email`,
  };
  return {
    nameOf: names.cookie,
    read: (header, name) => (header === undefined ? undefined : parseCookie(header)[names.cookie(name)]),
    write: ({ name, value, maxAgeSeconds }) =>
      stringifySetCookie({
        name: names.cookie(name),
        value,
        maxAge: value === "" ? 0 : maxAgeSeconds,
        path: paths[name],
        httpOnly: name !== "csrf",
        sameSite: "lax",
        secure,
      }),
  };
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
}
