import type { Page } from "./core/page.ts";
import { enterCodePage } from "./pages/enter_code.ts";
import { homePage } from "./pages/home.ts";
import { renewPage } from "./pages/renew.ts";
import { requestPage } from "./pages/request.ts";
import { signInPage } from "./pages/sign_in.ts";
import { signOutPage } from "./pages/sign_out.ts";
import { welcomeAccountPage, welcomeNamePage } from "./pages/welcome.ts";

/** Every page of the console: what is served and tested is this list. */
export const consolePages: readonly Page[] = [
  homePage,
  requestPage,
  signInPage,
  enterCodePage,
  renewPage,
  signOutPage,
  welcomeNamePage,
  welcomeAccountPage,
];
