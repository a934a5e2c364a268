import type { Names } from "../input/names.ts";
import type { Conclude } from "./exchange/conclude.ts";
import type { InProcess } from "./exchange/in_process.ts";
import type { Reply } from "./exchange/replies.ts";
import type { Exchange } from "./http_call.ts";
import type { Cookies } from "./request/cookies.ts";
import type { Powers } from "./request/roles.ts";

/** Pages that call operations. */
export type Site = {
  /** What their time and status are counted under. */
  id: string;
  serves(path: string): boolean;
  answer(exchange: Exchange): Promise<Reply>;
};

/** What pages are made with. */
export type SiteDeps = {
  inProcess: InProcess;
  /** Whether somebody with these powers may call an operation; one that there is none of throws. */
  isForRole(operationId: string, powers: Powers): boolean;
  /** Its deadline is shorter than the one of the exchange: there is time for a page that says so. */
  conclude: Conclude;
  cookies: Cookies;
  /** The bytes of a form, within the bounds of every body. */
  readBody(exchange: Exchange): Promise<Buffer>;
  baseUrl: string;
  names: Names;
};
