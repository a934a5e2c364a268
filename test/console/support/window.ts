import type { Browser, BrowserContext, Page } from "playwright-core";
import type { TestApi } from "../../support/api.ts";
import type { HttpClient } from "../../support/http.ts";

/** The window's width, the theme and whether scripts run. */
export type Look = { width: number; theme: "light" | "dark"; scripts?: boolean };

export const WIDTHS = [320, 1440];
export const THEMES = ["light", "dark"] as const;
export const LOOKS: Look[] = WIDTHS.flatMap((width) => THEMES.map((theme) => ({ width, theme })));

/** Two looks that together have each width, each theme, and scripts on and off. */
export const TWO_LOOKS: Required<Look>[] = [
  { width: 390, theme: "dark", scripts: false },
  { width: 1280, theme: "light", scripts: true },
];
/** Four looks that together have every pair of these values. */
export const FOUR_LOOKS: Required<Look>[] = [
  ...TWO_LOOKS,
  { width: 390, theme: "light", scripts: true },
  { width: 1280, theme: "dark", scripts: false },
];

/** `complaints` are warnings and errors: console messages, policy violations, exceptions. */
export type Window = { page: Page; context: BrowserContext; complaints: string[]; close(): Promise<void> };

const COOKIES = { session: "/", csrf: "/", refresh: "/v1/auth/refresh", sign_in: "/v1/auth/email" };

type Opened = { client?: HttpClient | undefined; look: Look; product?: string };

/** Opens a window with a client's cookies. It may also visit the origin of a product, by any certificate. */
export async function openWindow(
  browser: Browser,
  api: TestApi,
  { client, look, product = api.url }: Opened,
): Promise<Window> {
  const context = await browser.newContext({
    viewport: { width: look.width, height: 800 },
    colorScheme: look.theme,
    javaScriptEnabled: look.scripts ?? true,
    timezoneId: "Asia/Kolkata",
    locale: "en-GB",
    serviceWorkers: "block",
    ignoreHTTPSErrors: product !== api.url,
  });
  const cookies = Object.entries(COOKIES).flatMap(([name, path]) => {
    const value = client?.cookie(`service_${name}`);
    return value === undefined ? [] : [{ name: `service_${name}`, value, domain: "127.0.0.1", path }];
  });
  await context.addCookies(cookies);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("requestfailed", (request) => {
    // Chromium cancels what a page still requests when the person goes on to the next page.
    const reason = request.failure()?.errorText;
    if (reason !== "net::ERR_ABORTED") complaints.push(`${request.url()} ${reason}`);
  });
  page.on("request", (request) => {
    const isExpected = [api.url, product].some((origin) => request.url().startsWith(`${origin}/`));
    if (!isExpected) complaints.push(`asks ${request.url()}`);
  });
  return { page, context, complaints, close: () => context.close() };
}

/** Waits until a page is drawn and its scripts have changed it. */
export async function drawn(page: Page): Promise<void> {
  await page.evaluate(
    "new Promise((done) => requestAnimationFrame(() => setTimeout(() => setTimeout(done))))",
  );
}
