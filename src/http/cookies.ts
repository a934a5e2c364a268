import { parseCookie, stringifySetCookie } from "cookie";
import { ApiError } from "../errors.ts";
import type { Names } from "../input/names.ts";
import type { CookieChange, CookieName } from "../route.ts";

/** Reads and writes the service's cookies. */
export type Cookies = {
  /**
   * Returns a cookie's value from a `Cookie` header. Throws `invalid_request` if the header has the name
   * twice with different values: another host of the same site may have set one of them, and nobody can tell
   * which.
   */
  read(header: string | undefined, name: CookieName): string | undefined;
  /** Returns a cookie's name as sent to browsers. */
  nameOf(name: CookieName): string;
  write(change: CookieChange): string;
};

/**
 * Creates the cookies for a base URL. They are `SameSite=Lax`, limited to the base URL's path, and `Secure`
 * except for plain http on this machine. Scripts can read only the CSRF cookie. The browser sends the refresh
 * cookie only to the refresh call, and the sign-in cookie only to the calls that send and verify codes.
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
    read(header, name) {
      if (header === undefined) return undefined;
      const own = names.cookie(name);
      const pairs = header.split(";").filter((pair) => pair.split("=", 1)[0]?.trim() === own);
      const values = new Set(pairs.map((pair) => parseCookie(pair)[own]));
      if (values.size > 1) {
        throw new ApiError("invalid_request", `cookie: ${own} is sent twice with different values`);
      }
      return [...values][0];
    },
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
