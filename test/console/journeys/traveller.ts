import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { ReceivedMail } from "../../support/smtp.ts";
import { violations } from "../support/axe.ts";
import type { Look, Window } from "../support/window.ts";

/** A person in a browser who uses only what the pages show. */
export type Traveller = {
  page: Page;
  email: string;
  scripts: boolean;
  /** The browser's warnings and errors. `at` fails if there are any. */
  complaints: string[];
  /**
   * Waits for the page with this heading. Checks that it causes no browser warnings, is no wider than its
   * window and, with scripts, has no axe violation.
   */
  at(heading: string | RegExp): Promise<void>;
  /** Opens an entry of the navigation, which narrow screens show behind a button. */
  go(entry: string): Promise<void>;
  follow(link: string | RegExp): Promise<void>;
  press(button: string): Promise<void>;
  fill(label: string, value: string): Promise<void>;
  read(): Promise<string>;
  row(text: string | RegExp): Locator;
  /** Signs in at the page that asks for it, with the code from the mail. */
  signIn(): Promise<void>;
  /** Signs up, for themselves or for a new organization, from the page that asks to sign in. */
  onboard(organization?: string): Promise<void>;
  /** Opens the console and signs up. */
  signUp(organization?: string): Promise<void>;
};

type Made = { url: string; window: Window; email: string; look: Look; mails: ReceivedMail[] };

export function createTraveller({ url, window, email, look, mails }: Made): Traveller {
  const { page, complaints } = window;
  const { scripts = true } = look;

  const traveller: Traveller = {
    page,
    email,
    scripts,
    complaints,
    async at(heading) {
      await page.getByRole("heading", { level: 1, name: heading }).waitFor();
      const title = String(heading);
      if (scripts) expect([title, await violations(page)]).toEqual([title, []]);
      const wide = await page.evaluate<number>("document.documentElement.scrollWidth");
      expect([title, wide]).toEqual([title, look.width]);
      expect(complaints, `${title}: ${complaints.join("; ")}`).toEqual([]);
    },
    async go(entry) {
      const menu = page.getByRole("button", { name: "Menu", exact: true });
      if (await menu.isVisible()) await menu.click();
      const navigation = page.getByRole("navigation", { name: "Main" });
      await navigation.getByRole("link", { name: new RegExp(`^${entry}( \\d+ waiting)?$`) }).click();
    },
    follow: (link) => page.locator("main").getByRole("link", { name: link }).first().click(),
    press: (button) => page.locator("main").getByRole("button", { name: button, exact: true }).click(),
    fill: (label, value) => page.getByLabel(label, { exact: true }).fill(value),
    read: async () => ((await page.locator("main").textContent()) ?? "").replaceAll(/\s+/g, " "),
    row: (text) => page.getByRole("row").filter({ hasText: text }),
    async signIn() {
      await traveller.at("Sign in or sign up");
      await traveller.fill("E-mail address", email);
      await traveller.press("Send me a code");
      await traveller.at("Enter your code");
      await traveller.fill("Code", codeIn(mails, email));
      await traveller.press("Sign in");
    },
    async onboard(organization) {
      await traveller.signIn();
      await traveller.at("Your name");
      await traveller.fill("First name", "Ada");
      await traveller.fill("Last name", "Lovelace");
      await traveller.press("Continue");
      await traveller.at("Your account");
      const type = organization === undefined ? /For myself/ : /For an organization/;
      await page.getByRole("radio", { name: type }).check();
      if (organization !== undefined) await traveller.fill("Name of the organization", organization);
      await traveller.press("Open the account");
    },
    async signUp(organization) {
      await page.goto(`${url}/console`);
      await traveller.onboard(organization);
      await traveller.at("Hello, Ada");
    },
  };
  return traveller;
}

function codeIn(mails: readonly ReceivedMail[], email: string): string {
  const mail = mails.findLast(({ to, raw }) => to.includes(email) && raw.includes("sign-in code is"));
  return /^Your sign-in code is (\d{6})\r$/m.exec(mail?.raw ?? "")?.[1] ?? "";
}
