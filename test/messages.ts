import { fileURLToPath } from "node:url";
import { printMessages } from "./support/messages.ts";

/**
 * `npm run messages`: every message of an error, a refusal or a failed check, as users and operators may read
 * it.
 */
await printMessages(fileURLToPath(new URL("..", import.meta.url)));
