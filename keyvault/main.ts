import { hardenProcess } from "./hardening.ts";

hardenProcess();
await import("./program.ts");
