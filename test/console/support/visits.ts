import type { PlatformApi } from "../../support/platform_world.ts";
import { type Browser, browserOf, signIn } from "./console.ts";

/** Who looks at a page in a test. */
export type Viewer = "nobody" | "unnamed" | "typeless" | "complete";

/** How each page is reached, by its id; a page that is not here fails the tests of them all. */
export const visits: Record<
  string,
  { viewer: Viewer; path: string | ((api: PlatformApi) => Promise<string>) }
> = {
  home: { viewer: "complete", path: "/console" },
  sign_in: { viewer: "nobody", path: "/v1/auth/email/console?return_to=%2Fconsole" },
  enter_code: {
    viewer: "nobody",
    path: "/v1/auth/email/console/code?email=ada%40example.test&notice=code_sent",
  },
  renew: { viewer: "complete", path: "/v1/auth/refresh/console" },
  sign_out: { viewer: "complete", path: "/console/sign-out" },
  welcome_name: { viewer: "unnamed", path: "/console/welcome/name" },
  welcome_account: { viewer: "typeless", path: "/console/welcome/account" },
};

/** A browser of such a viewer, with fresh accounts. */
export async function viewerOf(api: PlatformApi, viewer: Viewer): Promise<Browser> {
  if (viewer === "nobody") return browserOf(api);
  if (viewer === "complete") return browserOf(api, (await api.person()).client);
  const browser = browserOf(api);
  const name = await signIn(browser, `${viewer}-${crypto.randomUUID()}@example.test`);
  if (viewer === "typeless") await name.send("profile", { first_name: "Ada", last_name: "Lovelace" });
  return browser;
}

/** Where a page is. */
export async function pathOf(api: PlatformApi, id: string): Promise<string> {
  const path = visits[id]?.path;
  if (path === undefined) throw new Error(`test/console/support/visits.ts does not say how to reach ${id}`);
  return typeof path === "string" ? path : path(api);
}
